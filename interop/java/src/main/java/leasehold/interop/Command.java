package leasehold.interop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** One line of stdin: an {@code id} for the reply, an {@code op}, and its arguments. */
record Command(JsonNode fields) {
    private static final ObjectMapper JSON = new ObjectMapper();

    static Command parse(String line) throws JsonProcessingException {
        return new Command(JSON.readTree(line));
    }

    JsonNode id() {
        return fields.path("id");
    }

    String op() {
        return fields.path("op").asText();
    }

    boolean has(String field) {
        return fields.hasNonNull(field);
    }

    boolean is(String field) {
        return fields.path(field).asBoolean();
    }

    String text(String field) {
        return required(field).asText();
    }

    String text(String field, String otherwise) {
        return has(field) ? text(field) : otherwise;
    }

    long number(String field) {
        JsonNode value = required(field);
        if (!value.isIntegralNumber()) {
            throw new IllegalArgumentException("`" + field + "` is not a whole number: " + fields);
        }
        return value.asLong();
    }

    long number(String field, long otherwise) {
        return has(field) ? number(field) : otherwise;
    }

    private JsonNode required(String field) {
        if (!has(field)) {
            throw new IllegalArgumentException("`" + field + "` is missing: " + fields);
        }
        return fields.get(field);
    }
}
