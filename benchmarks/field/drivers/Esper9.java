import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Files;
import java.nio.file.Path;

/** Esper 9: a rule is a join, which the A alone sets off. */
public final class Esper9 extends Driver {
    public record A(int room, int v) {
        public int getRoom() { return room; }
        public int getV() { return v; }
    }

    public record B(int room, int v) {
        public int getRoom() { return room; }
        public int getV() { return v; }
    }

    private final EPRuntime runtime;
    private final Object[] beans;

    Esper9(String[] arguments) throws Exception {
        super(arguments);
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType(A.class);
        configuration.getCommon().addEventType(B.class);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        String module = Files.readString(Path.of(arguments[3]));
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(module, new CompilerArguments(configuration));
        runtime = EPRuntimeProvider.getDefaultRuntime(configuration);
        runtime.getEventService().advanceTime(0);
        for (EPStatement statement : runtime.getDeploymentService().deploy(compiled).getStatements()) {
            statement.addListener((fresh, old, from, by) -> matches += fresh.length);
        }
        beans = new Object[events.length];
        for (int n = 0; n < events.length; n++) {
            beans[n] = events[n].isA() ? new A(events[n].room(), events[n].value()) : new B(events[n].room(), events[n].value());
        }
    }

    @Override
    void run() {
        var service = runtime.getEventService();
        for (int n = 0; n < events.length; n++) {
            service.advanceTime(shift + events[n].second() * 1000);
            service.sendEventBean(beans[n], events[n].isA() ? "A" : "B");
        }
    }

    public static void main(String[] arguments) throws Exception {
        new Esper9(arguments).serve();
    }
}
