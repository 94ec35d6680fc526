import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;

/** Siddhi 5.1: a table by room holds the last B of each rule; each B of 30 s is in one window that the rules share. */
public final class Siddhi extends Driver {
    private final InputHandler toA, toB;

    Siddhi(String[] arguments) throws Exception {
        super(arguments);
        // Tables come before the first query: SiddhiQL has definitions first.
        StringBuilder app = new StringBuilder("@app:playback\ndefine stream A (room int, v int, t long);\ndefine stream B (room int, v int, t long);\n");
        StringBuilder queries = new StringBuilder();
        if (each) {
            app.append("define window W (room int, v int, t long) externalTime(t, 30001 milliseconds);\n");
            queries.append("from B select room, v, t insert into W;\n");
        }
        for (int n = 0; n < rules; n++) {
            if (each) {
                queries.append("from A[v >= ").append(n).append("] as a unidirectional join W as b on a.room == b.room and b.v >= ").append(n)
                    .append(" and a.t - b.t <= 30000L select a.v as v, b.v as w insert into M;\n");
            } else {
                String table = "T" + n;
                app.append("@primaryKey('room') define table ").append(table).append(" (room int, v int, t long);\n");
                queries.append("from B[v >= ").append(n).append("] select room, v, t update or insert into ").append(table)
                    .append(" set ").append(table).append(".v = v, ").append(table).append(".t = t on ").append(table).append(".room == room;\n");
                queries.append("from A[v >= ").append(n).append("] as a join ").append(table)
                    .append(" as b on a.room == b.room and a.t - b.t <= 30000L select a.v as v, b.v as w insert into M;\n");
            }
        }
        app.append(queries);
        SiddhiAppRuntime runtime = new SiddhiManager().createSiddhiAppRuntime(app.toString());
        runtime.addCallback("M", new StreamCallback() {
            @Override
            public void receive(Event[] given) {
                matches += given.length;
            }
        });
        runtime.start();
        toA = runtime.getInputHandler("A");
        toB = runtime.getInputHandler("B");
    }

    @Override
    void run() throws Exception {
        for (Given event : events) {
            long now = shift + event.second() * 1000 + 1;
            (event.isA() ? toA : toB).send(now, new Object[] {event.room(), event.value(), now});
        }
    }

    public static void main(String[] arguments) throws Exception {
        new Siddhi(arguments).serve();
    }
}
