import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.Files;
import java.nio.file.Path;

/** Siddhi 5.1. */
public final class Siddhi extends Driver {
    private final InputHandler toA, toB;

    Siddhi(String[] arguments) throws Exception {
        super(arguments);
        SiddhiAppRuntime runtime = new SiddhiManager().createSiddhiAppRuntime(Files.readString(Path.of(arguments[3])));
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
