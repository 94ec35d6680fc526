import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/** One peer that runs the same events again at each line "run" of its standard input, and answers with a JSON object a line. */
abstract class Driver {
    /** An event: seconds, whether it is an A, room and value. */
    record Given(long second, boolean isA, int room, int value) {}

    final Given[] events;
    final int rules;
    final boolean each;
    /** Milliseconds added to the times of a run, so that the windows of the run before are empty. */
    long shift = 0;
    long matches = 0;

    /** Arguments: file of events, number of rules, "last" or "each", and file of the rules where they are a text. */
    Driver(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        events = new Given[lines.size()];
        for (int n = 0; n < events.length; n++) {
            String[] cells = lines.get(n).split("\t");
            events[n] = new Given(Long.parseLong(cells[0]), cells[1].equals("A"), Integer.parseInt(cells[2]), Integer.parseInt(cells[3]));
        }
        rules = Integer.parseInt(arguments[1]);
        each = arguments[2].equals("each");
    }

    /** Sends all events; `matches` has the number of matches then. */
    abstract void run() throws Exception;

    /** Whether all work is done by the thread that calls `run`. */
    boolean isOneThread() {
        return true;
    }

    final void serve() throws Exception {
        var threads = ManagementFactory.getThreadMXBean();
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        var input = new BufferedReader(new InputStreamReader(System.in));
        var output = System.out;
        System.setOut(System.err);
        output.printf(Locale.ROOT, "{\"ready\": \"%s\"}%n", Runtime.version());
        output.flush();
        long span = 1000 * (events.length == 0 ? 1 : events[events.length - 1].second + 3600);
        while ("run".equals(input.readLine())) {
            matches = 0;
            long clock = System.nanoTime(), process = system.getProcessCpuTime(), thread = threads.getCurrentThreadCpuTime();
            run();
            thread = threads.getCurrentThreadCpuTime() - thread;
            process = system.getProcessCpuTime() - process;
            clock = System.nanoTime() - clock;
            shift += span;
            output.printf(Locale.ROOT, "{\"count\": %d, \"thread\": %s, \"process\": %.9f, \"clock\": %.9f, \"total\": %.9f, \"peak\": %d}%n",
                matches, isOneThread() ? String.format(Locale.ROOT, "%.9f", thread / 1e9) : "null", process / 1e9, clock / 1e9,
                system.getProcessCpuTime() / 1e9, peak());
            output.flush();
        }
        System.exit(0);
    }

    /** The most kilobytes of memory that this process has held. */
    static long peak() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) {
                return Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        return 0;
    }
}
