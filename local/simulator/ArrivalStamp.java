package local.simulator;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Takes the first eight bytes of each record's key, its arrival time in milliseconds, and makes them its timestamp.
 * Spark's Kafka sink has no column for a record's timestamp; its producer can be given this instead.
 * Compiled by Janino, which Spark ships and which knows no type arguments: hence the raw types.
 */
public class ArrivalStamp implements ProducerInterceptor {
    public ProducerRecord onSend(ProducerRecord record) {
        byte[] key = (byte[]) record.key();
        if (key == null || key.length < 8) {
            // An exception would only be logged, and the record sent with the time of today.
            throw new AssertionError("a record without its arrival time");
        }
        Long arrival = Long.valueOf(ByteBuffer.wrap(key).getLong());
        return new ProducerRecord(
            record.topic(),
            record.partition(),
            arrival,
            Arrays.copyOfRange(key, 8, key.length),
            record.value(),
            record.headers());
    }

    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    public void close() {}

    public void configure(Map configs) {}
}
