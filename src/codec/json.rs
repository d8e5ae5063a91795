//! The two JSON codecs of Redisson.

use std::io::{self, Write};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Map, Serializer, Value,
    ser::{CharEscape, CompactFormatter, Formatter},
};

use super::{Codec, CodecError};

/// Writes and reads plain JSON, like `TypedJsonJacksonCodec` of Redisson. This is the best codec
/// for new data.
///
/// The codec sorts the fields of an object, and leaves out fields whose value is null, because
/// Java's codec does the same. Names of fields in Java are in camel case, so add
/// `#[serde(rename_all = "camelCase")]`. Floats, maps, and objects with a `@JsonCreator` may have
/// other bytes than in Java. Java can read such values, but do not use them as keys, as elements of
/// sets, or as values that Redis compares.
///
/// # Examples
///
/// ```
/// use leasehold::codec::{Codec, Json};
/// use std::collections::BTreeMap;
/// let total = BTreeMap::from([("total".to_owned(), Some(15)), ("paid".to_owned(), None)]);
/// assert_eq!(Json.encode(&total)?, br#"{"total":15}"#);
/// # Ok::<(), leasehold::codec::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        let value = value_of(value)?;
        let bytes = written(&sorted(&value))?;
        readable::<T>(self, &value, &bytes)?;
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(bytes).map_err(CodecError::new)
    }
}

/// Writes and reads JSON that contains the Java class of the value, like `JsonJacksonCodec` of
/// Redisson.
///
/// [`new`](Self::new) is for objects of one class, whose fields are texts, numbers and booleans.
/// [`plain`](Self::plain) is for values without a class of their own: texts, booleans and numbers.
/// With `plain`, Java reads a whole number that fits into an `i32` as an `Integer`, and a greater
/// number as a `Long`. For a Java map of `Long`, use `TaggedJson::new("java.lang.Long")`. Both
/// codecs reject a number above `i64::MAX`, which is the maximum of a `Long`.
///
/// In Java's format, an object within an object names its own class. This codec knows only one
/// class, so it rejects nested objects and lists. For such data, use [`Json`] in Rust and
/// `TypedJsonJacksonCodec` in Java.
///
/// # Examples
///
/// ```
/// use leasehold::codec::{Codec, TaggedJson};
/// let long = TaggedJson::new("java.lang.Long");
/// assert_eq!(long.encode(&42)?, br#"["java.lang.Long",42]"#);
/// assert_eq!(TaggedJson::plain().encode(&42)?, b"42");
/// # Ok::<(), leasehold::codec::CodecError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaggedJson {
    class: Option<String>,
}

const LONG: &str = "java.lang.Long";
const CLASS: &str = "@class";

impl TaggedJson {
    /// Creates a codec for values of the Java class `class`, such as `com.example.Order`.
    ///
    /// # Examples
    ///
    /// ```
    /// let orders = leasehold::codec::TaggedJson::new("com.example.Order");
    /// ```
    #[must_use]
    pub fn new(class: impl Into<String>) -> Self {
        Self { class: Some(class.into()) }
    }

    /// Creates a codec for texts, numbers and booleans.
    ///
    /// # Examples
    ///
    /// ```
    /// let names = leasehold::codec::TaggedJson::plain();
    /// ```
    #[must_use]
    pub fn plain() -> Self {
        Self { class: None }
    }

    fn tagged(&self, value: Value) -> Result<Value, CodecError> {
        Ok(match (value, &self.class) {
            (Value::Object(_), _) | (Value::Array(_), None) => return Err(needs_class()),
            (Value::Number(number), class)
                if exceeds_long(&number) && class.as_deref().is_none_or(|it| it == LONG) =>
            {
                return Err(CodecError::new(
                    "the number is above 9223372036854775807, the maximum of a Java Long",
                ));
            }
            (value, Some(class)) => Value::Array(vec![class.as_str().into(), value]),
            (Value::Number(number), None) if !is_integer(&number) => {
                Value::Array(vec![LONG.into(), number.into()])
            }
            (value, None) => value,
        })
    }

    /// Returns an error unless the `class` of a value is the class of this codec. A codec without a
    /// class expects the class `otherwise`.
    fn is_of(&self, class: &Value, otherwise: Option<&str>) -> Result<(), CodecError> {
        let expected = self.class.as_deref().or(otherwise);
        match class.as_str() {
            Some(class) if Some(class) == expected => Ok(()),
            _ => Err(CodecError::new(format!("the value has the class {class}"))),
        }
    }

    fn untagged(&self, value: Value) -> Result<Value, CodecError> {
        match value {
            Value::Object(mut fields) => {
                let class = fields.remove(CLASS).ok_or_else(needs_class)?;
                self.is_of(&class, None)?;
                flat(fields).map(Value::Object)
            }
            Value::Array(parts) => {
                let [class, value] = <[Value; 2]>::try_from(parts).map_err(|_| needs_class())?;
                self.is_of(&class, Some(LONG))?;
                Ok(value)
            }
            value => Ok(value),
        }
    }
}

impl<T: Serialize + DeserializeOwned> Codec<T> for TaggedJson {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        let value = value_of(value)?;
        let bytes = self.written(sorted(&value))?;
        readable::<T>(self, &value, &bytes)?;
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        let value = serde_json::from_slice(bytes).map_err(CodecError::new)?;
        serde_json::from_value(self.untagged(value)?).map_err(CodecError::new)
    }
}

impl TaggedJson {
    fn written(&self, value: Value) -> Result<Vec<u8>, CodecError> {
        match (value, &self.class) {
            (Value::Object(fields), Some(class)) => {
                let fields = written(&Value::Object(flat(fields)?))?;
                let class = written(&Value::String(class.clone()))?;
                // Jackson writes the class first, and sorts the other fields.
                let comma: &[u8] = if fields == b"{}" { b"" } else { b"," };
                Ok([br#"{"@class":"#, &class[..], comma, &fields[1..]].concat())
            }
            (value, _) => written(&self.tagged(value)?),
        }
    }
}

/// Returns whether Java's codec reads this number as an `Integer` or a `Double`. Such a number
/// needs no class name.
fn is_integer(number: &serde_json::Number) -> bool {
    number.is_f64() || number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Returns whether the number is a whole number above the maximum of a `Long`.
fn exceeds_long(number: &serde_json::Number) -> bool {
    number.is_u64() && !number.is_i64()
}

fn needs_class() -> CodecError {
    CodecError::new(
        "JsonJacksonCodec needs a class name in each object and list, but it is missing",
    )
}

/// Rejects an object that contains objects or lists.
fn flat(fields: Map<String, Value>) -> Result<Map<String, Value>, CodecError> {
    match fields.values().any(|value| value.is_object() || value.is_array()) {
        true => Err(CodecError::new("TaggedJson supports no objects or lists within an object")),
        false => Ok(fields),
    }
}

fn value_of(value: &impl Serialize) -> Result<Value, CodecError> {
    serde_json::to_value(value).map_err(CodecError::new)
}

/// Returns an error if the codec cannot read the `bytes` that it wrote. For example, an enum
/// variant such as `Resize(None)` needs the null that the codec leaves out.
fn readable<T>(codec: &impl Codec<T>, value: &Value, bytes: &[u8]) -> Result<(), CodecError> {
    if has_null(value) {
        codec.decode(bytes)?;
    }
    Ok(())
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(parts) => parts.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

fn written(value: &Value) -> Result<Vec<u8>, CodecError> {
    let mut bytes = vec![];
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, Jackson))
        .map_err(CodecError::new)?;
    Ok(bytes)
}

/// Escapes characters as Jackson does: a character above U+FFFF becomes two escapes, and
/// hexadecimal digits are in upper case.
struct Jackson;

impl Formatter for Jackson {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        text: &str,
    ) -> Result<(), io::Error> {
        for character in text.chars() {
            let mut units = [0; 2];
            match character.encode_utf16(&mut units) {
                [high, low] => write!(to, "\\u{high:04X}\\u{low:04X}")?,
                _ => write!(to, "{character}")?,
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        escape: CharEscape,
    ) -> Result<(), io::Error> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(to, "\\u{byte:04X}"),
            other => CompactFormatter.write_char_escape(to, other),
        }
    }
}

/// Sorts the fields of all objects, and leaves out fields whose value is null. `serde_json` does
/// not always sort: if another crate enables the feature `preserve_order`, `serde_json` keeps the
/// order of insertion.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, it)| !it.is_null()).collect();
            fields.sort_by_key(|(name, _)| *name);
            Value::Object(fields.into_iter().map(|(name, it)| (name.clone(), sorted(it))).collect())
        }
        Value::Array(parts) => Value::Array(parts.iter().map(sorted).collect()),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shared(codec: &impl Codec<Value>, value: &Value, expected: &str) {
        let bytes = codec.encode(value).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        assert_eq!(codec.decode(&bytes).unwrap(), *value);
    }

    #[test]
    fn json_is_sorted_and_has_no_null_fields() {
        shared(&Json, &json!("test1"), "\"test1\"");
        shared(&Json, &json!(42), "42");
        shared(&Json, &json!(["x", null]), "[\"x\",null]");
        let value = json!({"b": 1, "a": {"d": null, "c": "é/"}, "e": null});
        let bytes = Json.encode(&value).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "{\"a\":{\"c\":\"é/\"},\"b\":1}");
    }

    #[test]
    fn json_refuses_a_null_that_cannot_be_left_out() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        enum Job {
            Resize(Option<u32>),
            Rename { to: Option<String> },
        }
        assert!(Json.encode(&Job::Resize(None)).is_err());
        assert!(Codec::<f64>::encode(&Json, &f64::NAN).is_err());
        let rename = Job::Rename { to: None };
        let bytes = Json.encode(&rename).unwrap();
        assert_eq!(Codec::<Job>::decode(&Json, &bytes).unwrap(), rename);
    }

    /// Former bug: one of ten numbers was read with another last digit, so that `compare_and_set`
    /// with a value that was just read returned `false`.
    #[test]
    fn json_reads_each_float_as_it_was_written() {
        for number in (1..10_000).map(|number| f64::from(number) * 1.1) {
            let bytes = Json.encode(&number).unwrap();
            assert_eq!(Codec::<f64>::decode(&Json, &bytes).unwrap().to_bits(), number.to_bits());
        }
    }

    #[test]
    fn json_escapes_as_jackson_does() {
        shared(&Json, &json!("\u{1f512}\u{1b}é\n\""), "\"\\uD83D\\uDD12\\u001Bé\\n\\\"\"");
        let order = TaggedJson::new("com.ex.Foo");
        shared(
            &order,
            &json!({"a": "\u{1f512}"}),
            "{\"@class\":\"com.ex.Foo\",\"a\":\"\\uD83D\\uDD12\"}",
        );
    }

    #[test]
    fn tagged_json_names_the_class_first() {
        let order = TaggedJson::new("com.ex.Foo");
        shared(&order, &json!({"B": 2, "a": 1}), "{\"@class\":\"com.ex.Foo\",\"B\":2,\"a\":1}");
        shared(&order, &json!({}), "{\"@class\":\"com.ex.Foo\"}");
        shared(&TaggedJson::new("java.lang.Long"), &json!(42), "[\"java.lang.Long\",42]");
        shared(
            &TaggedJson::new("java.util.ArrayList"),
            &json!(["x"]),
            "[\"java.util.ArrayList\",[\"x\"]]",
        );
        let plain = TaggedJson::plain();
        shared(&plain, &json!("test1"), "\"test1\"");
        shared(&plain, &json!(-42), "-42");
        shared(&plain, &json!(1.5), "1.5");
        shared(&plain, &json!(true), "true");
        shared(&plain, &json!(3_000_000_000_i64), "[\"java.lang.Long\",3000000000]");
    }

    #[test]
    fn tagged_json_refuses_values_that_java_cannot_read() {
        let order = TaggedJson::new("com.ex.Foo");
        let cannot = |codec: &TaggedJson, value: Value| codec.encode(&value).unwrap_err();
        for (codec, value, text) in [
            (&order, json!({"a": {"b": 1}}), "within an object"),
            (&order, json!({"a": []}), "within an object"),
            (&TaggedJson::plain(), json!({"a": 1}), "needs a class name"),
            (&TaggedJson::plain(), json!([]), "needs a class name"),
            (&TaggedJson::plain(), json!(u64::MAX), "maximum of a Java Long"),
            (&TaggedJson::new(LONG), json!(u64::MAX), "maximum of a Java Long"),
        ] {
            let error = cannot(codec, value);
            assert!(error.to_string().contains(text), "{error}");
        }
        let other = br#"{"@class":"com.ex.Bar","a":1}"#;
        let error = Codec::<Value>::decode(&order, other).unwrap_err();
        assert_eq!(error.to_string(), "the value has the class \"com.ex.Bar\"");
        assert!(Codec::<Value>::decode(&order, b"{\"a\":1}").is_err());
    }
}
