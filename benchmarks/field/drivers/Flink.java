import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Flink CEP 2.1: a pattern a rule over the stream keyed by room; a run is a job of one slot, its start and end included. */
public final class Flink extends Driver {
    public static final class Reading {
        public long time;
        public boolean isA;
        public int room, v;
        public Reading() {}
    }

    static final class Above extends SimpleCondition<Reading> {
        private final boolean isA;
        private final int least;
        Above(boolean isA, int least) { this.isA = isA; this.least = least; }
        @Override
        public boolean filter(Reading reading) { return reading.isA == isA && reading.v >= least; }
    }

    static final class Count extends PatternProcessFunction<Reading, Integer> {
        /** Matches of this process, in which all tasks run: accumulators are not supported here. */
        static final AtomicLong MATCHES = new AtomicLong();
        @Override
        public void processMatch(Map<String, List<Reading>> match, Context context, Collector<Integer> out) {
            MATCHES.incrementAndGet();
        }
    }

    private final List<Reading> readings = new ArrayList<>();

    Flink(String[] arguments) throws Exception {
        super(arguments);
        for (Given event : events) {
            Reading reading = new Reading();
            reading.time = event.second() * 1000;
            reading.isA = event.isA();
            reading.room = event.room();
            reading.v = event.value();
            readings.add(reading);
        }
    }

    @Override
    boolean isOneThread() {
        return false;
    }

    @Override
    void run() throws Exception {
        var environment = StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        environment.getConfig().enableObjectReuse();
        KeyedStream<Reading, Integer> keyed = environment.fromData(readings)
            .assignTimestampsAndWatermarks(WatermarkStrategy.<Reading>forMonotonousTimestamps().withTimestampAssigner((reading, before) -> reading.time))
            .keyBy(reading -> reading.room);
        for (int n = 0; n < rules; n++) {
            // The rule.
            Pattern<Reading, Reading> b = Pattern.<Reading>begin("b").where(new Above(false, n));
            Pattern<Reading, Reading> ab = each ? b : b.notFollowedBy("later").where(new Above(false, n));
            ab = ab.followedByAny("a").where(new Above(true, n)).within(Duration.ofMillis(30_001));
            CEP.pattern(keyed, ab).process(new Count()).sinkTo(new DiscardingSink<>());
            // End of the rule.
        }
        Count.MATCHES.set(0);
        environment.execute();
        matches = Count.MATCHES.get();
    }

    public static void main(String[] arguments) throws Exception {
        new Flink(arguments).serve();
    }
}
