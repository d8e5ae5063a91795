//! Guesses which codec wrote some bytes, so that an error can name a remedy.

/// Returns the remedy for an error of `codec`, which cannot read `bytes`.
pub(crate) fn remedy(codec: &str, bytes: &[u8]) -> String {
    match writer(bytes) {
        Some(Writer::Codec(writer))
            if codec.starts_with(writer) || codec.contains("Json") && is_scalar(bytes) =>
        {
            "decode the value as the type that was written".to_owned()
        }
        Some(Writer::Codec(writer)) => format!("the bytes look like {writer}, so use that codec"),
        Some(Writer::KryoObject) => "the bytes look like an object of Java's Kryo5Codec, which \
                                     only Java can read, so set TypedJsonJacksonCodec in Java"
            .to_owned(),
        Some(Writer::MapCache) => "the bytes look like an entry of Java's RMapCache, so use \
            getMapCacheNative in Java"
            .to_owned(),
        None => "use the codec that wrote the value".to_owned(),
    }
}

/// The likely writer of some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Writer {
    /// A codec of this crate or the same codec in Java. The field is its name in this crate.
    Codec(&'static str),
    KryoObject,
    MapCache,
}

fn writer(bytes: &[u8]) -> Option<Writer> {
    let codec = |name| Some(Writer::Codec(name));
    match bytes {
        _ if is_map_cache(bytes) => Some(Writer::MapCache),
        [1, 0..=1, ..] => Some(Writer::KryoObject),
        [2 | 9, number @ ..] if is_varint(number) => codec("Kryo5Text"),
        [3, 0x80..=0xff, ..] | [3, .., 0x80..=0xff] | [5, 0 | 1] => codec("Kryo5Text"),
        [4, float @ ..] if float.len() == 4 => codec("Kryo5Text"),
        [10, double @ ..] if double.len() == 8 => codec("Kryo5Text"),
        _ => text(str::from_utf8(bytes).ok()?).map(Writer::Codec),
    }
}

/// Returns whether the bytes look like an entry of `RMapCache`. Redisson packs such an entry in Lua
/// with the format `dLc0`: 8 bytes of idle time, 8 bytes of length, then the value.
fn is_map_cache(bytes: &[u8]) -> bool {
    let value = bytes.len().checked_sub(16).and_then(|rest| u64::try_from(rest).ok());
    let length = bytes.get(8..16).and_then(|length| length.try_into().ok());
    value.is_some() && value == length.map(u64::from_le_bytes)
}

fn is_varint(bytes: &[u8]) -> bool {
    let Some((last, before)) = bytes.split_last() else { return false };
    bytes.len() <= 10 && *last < 0x80 && before.iter().all(|byte| *byte >= 0x80)
}

/// Returns whether the bytes are a number or a boolean, which each text codec may have written.
fn is_scalar(bytes: &[u8]) -> bool {
    let number = str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
    number.is_some() || matches!(bytes, b"true" | b"false")
}

fn text(text: &str) -> Option<&'static str> {
    let ends = |open, close| text.starts_with(open) && text.ends_with(close);
    match text {
        _ if text.starts_with("{\"@class\":") || text.starts_with("[\"java.") => Some("TaggedJson"),
        _ if text.len() > 1 && (ends('"', '"') || ends('{', '}') || ends('[', ']')) => Some("Json"),
        _ if text.chars().any(char::is_control) => None,
        _ => Some("Text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_of_the_writer_is_recognized_by_the_bytes() {
        let mut entry = [&[0; 8][..], &3_u64.to_le_bytes(), b"abc"].concat();
        assert_eq!(writer(&entry), Some(Writer::MapCache));
        entry.push(0);
        assert_ne!(writer(&entry), Some(Writer::MapCache));
        for (bytes, codec) in [
            (&[3, b't', b'e', 0xf4][..], "Kryo5Text"),
            (&[3, 0x81], "Kryo5Text"),
            (&[3, 0x82, b'a'], "Kryo5Text"),
            (&[2, 0x54], "Kryo5Text"),
            (&[9, 0xd8, 4], "Kryo5Text"),
            (&[5, 1], "Kryo5Text"),
            (&[10, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f], "Kryo5Text"),
            (b"{\"@class\":\"com.ex.Foo\",\"a\":1}", "TaggedJson"),
            (b"[\"java.lang.Long\",42]", "TaggedJson"),
            (b"\"test1\"", "Json"),
            (b"{\"a\":1}", "Json"),
            (b"42", "Text"),
            (b"\"", "Text"),
        ] {
            assert_eq!(writer(bytes), Some(Writer::Codec(codec)), "{bytes:?}");
        }
        assert_eq!(writer(&[1, 0, b'c']), Some(Writer::KryoObject));
        for odd in [&[0xff, 0xfe][..], &[2], &[2, 0x80], &[10, 1], b"a\x07"] {
            assert_eq!(writer(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn remedy_names_the_codec_of_the_writer() {
        assert!(remedy("Text", b"\"test1\"").contains("look like Json"));
        for (codec, bytes) in [("Text", "300"), ("Json", "300"), ("TaggedJson", "true")] {
            let remedy = remedy(codec, bytes.as_bytes());
            assert_eq!(remedy, "decode the value as the type that was written", "{codec}");
        }
        assert!(remedy("Json", b"test1").contains("look like Text"));
        assert_eq!(remedy("Text", &[0xff]), "use the codec that wrote the value");
    }
}
