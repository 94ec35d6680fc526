"""`dotr report`: one HTML page about a replay of a configuration: timeline, rules, dead letters,
inputs and the program."""
