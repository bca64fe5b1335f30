package flinkcluster;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** One partition: its number and how many of its records have been emitted. */
final class OrdersSplit implements SourceSplit {
    final int number;

    /** Written by the task, read by the threads that report metrics. */
    volatile long emitted;

    OrdersSplit(int number, long emitted) {
        this.number = number;
        this.emitted = emitted;
    }

    @Override
    public String splitId() {
        return "p" + number;
    }

    /** Serializes a split to its two numbers. */
    static final class Serializer implements SimpleVersionedSerializer<OrdersSplit> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(OrdersSplit split) throws IOException {
            return new ListSerializer().serialize(List.of(split));
        }

        @Override
        public OrdersSplit deserialize(int version, byte[] bytes) throws IOException {
            return new ListSerializer().deserialize(version, bytes).get(0);
        }
    }

    /** Serializes the splits that no reader has: the enumerator's checkpoint. */
    static final class ListSerializer implements SimpleVersionedSerializer<List<OrdersSplit>> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(List<OrdersSplit> splits) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeInt(splits.size());
            for (OrdersSplit split : splits) {
                out.writeInt(split.number);
                out.writeLong(split.emitted);
            }
            return bytes.toByteArray();
        }

        @Override
        public List<OrdersSplit> deserialize(int version, byte[] bytes) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            List<OrdersSplit> splits = new ArrayList<>();
            for (int left = in.readInt(); left > 0; left--) {
                splits.add(new OrdersSplit(in.readInt(), in.readLong()));
            }
            return splits;
        }
    }
}
