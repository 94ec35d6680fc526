import com.espertech.esper.client.Configuration;
import com.espertech.esper.client.EPServiceProvider;
import com.espertech.esper.client.EPServiceProviderManager;
import com.espertech.esper.client.time.CurrentTimeEvent;
import java.nio.file.Files;
import java.nio.file.Path;

/** Esper 4.2, which the papers of T-Rex and of DOTR measured. */
public final class Esper4 extends Driver {
    public static final class A {
        private final int room, v;
        A(int room, int v) { this.room = room; this.v = v; }
        public int getRoom() { return room; }
        public int getV() { return v; }
    }

    public static final class B {
        private final int room, v;
        B(int room, int v) { this.room = room; this.v = v; }
        public int getRoom() { return room; }
        public int getV() { return v; }
    }

    private final EPServiceProvider provider;
    private final Object[] beans;

    Esper4(String[] arguments) throws Exception {
        super(arguments);
        Configuration configuration = new Configuration();
        configuration.addEventType("A", A.class);
        configuration.addEventType("B", B.class);
        configuration.getEngineDefaults().getThreading().setInternalTimerEnabled(false);
        provider = EPServiceProviderManager.getDefaultProvider(configuration);
        provider.getEPRuntime().sendEvent(new CurrentTimeEvent(0));
        for (String statement : Files.readAllLines(Path.of(arguments[3]))) {
            provider.getEPAdministrator().createEPL(statement).addListener((fresh, old) -> matches += fresh.length);
        }
        beans = new Object[events.length];
        for (int n = 0; n < events.length; n++) {
            beans[n] = events[n].isA() ? new A(events[n].room(), events[n].value()) : new B(events[n].room(), events[n].value());
        }
    }

    @Override
    void run() {
        var runtime = provider.getEPRuntime();
        for (int n = 0; n < events.length; n++) {
            runtime.sendEvent(new CurrentTimeEvent(shift + events[n].second() * 1000));
            runtime.sendEvent(beans[n]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        new Esper4(arguments).serve();
    }
}
