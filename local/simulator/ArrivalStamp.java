package local.simulator;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Removes the first eight bytes of each record's key, the arrival time in milliseconds, and sets them as its timestamp.
 * Spark's Kafka sink has no column for the timestamp, but its producer accepts an interceptor.
 * Compiled by Janino, which Spark ships; it does not support type arguments, hence the raw types.
 */
public class ArrivalStamp implements ProducerInterceptor {
    public ProducerRecord onSend(ProducerRecord record) {
        byte[] key = (byte[]) record.key();
        if (key == null || key.length < 8) {
            // Kafka would only log an exception, and send the record with the current time.
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
