"""MQTT: subscriptions as inputs, publications as outputs."""
