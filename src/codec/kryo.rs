//! Texts and numbers as Redisson's default codec writes them.

use super::{Codec, CodecError};

/// Writes and reads texts and numbers like `Kryo5Codec`, the default codec of Redisson since 3.19.
///
/// With this codec, Rust can share an `RMap<String, Long>` or an `RSet<String>` with Java programs
/// that set no codec. The codec supports `String`, `i32` (Java's `Integer`), `i64` (`Long`), `f64`
/// (`Double`) and `bool`. Only Java can read other objects that Kryo wrote. To share objects, set
/// `TypedJsonJacksonCodec` in Java.
///
/// # Examples
///
/// ```
/// use leasehold::codec::{Codec, Kryo5Text};
/// assert_eq!(Kryo5Text.encode(&42_i64)?, [0x09, 0x54]);
/// assert_eq!(Kryo5Text.encode(&"abc".to_owned())?, [0x03, b'a', b'b', 0xe3]);
/// # Ok::<(), leasehold::codec::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Kryo5Text;

// The number of each class, as Kryo writes it in the first byte.
const INT: u8 = 2;
const STRING: u8 = 3;
const BOOLEAN: u8 = 5;
const LONG: u8 = 9;
const DOUBLE: u8 = 10;

/// Kryo writes an ASCII text of at least two characters, and at most this number of characters,
/// without its length.
const SHORT: usize = 32;

impl Codec<String> for Kryo5Text {
    fn encode(&self, value: &String) -> Result<Vec<u8>, CodecError> {
        let mut bytes = vec![STRING];
        if value.is_ascii() && (2..=SHORT).contains(&value.len()) {
            bytes.extend(value.as_bytes());
            if let Some(last) = bytes.last_mut() {
                *last |= 0x80;
            }
            return Ok(bytes);
        }
        let units: Vec<_> = value.encode_utf16().collect();
        let length = units.len() as u64 + 1;
        match length < 0x40 {
            true => bytes.push(0x80 | length as u8),
            false => {
                bytes.push(0xc0 | (length & 0x3f) as u8);
                varint(length >> 6, &mut bytes);
            }
        }
        units.into_iter().for_each(|unit| put(unit, &mut bytes));
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, CodecError> {
        let bytes = of_class(STRING, bytes)?;
        match bytes.split_first() {
            Some((first, rest)) if first & 0x80 > 0 => long_text(*first, rest),
            Some(_) => short_text(bytes),
            None => Err(broken()),
        }
    }
}

/// Reads an ASCII text. Kryo sets the high bit of its last byte to mark the end.
fn short_text(bytes: &[u8]) -> Result<String, CodecError> {
    let (last, before) = bytes.split_last().ok_or_else(broken)?;
    if *last & 0x80 == 0 || !before.is_ascii() {
        return Err(broken());
    }
    let all = before.iter().copied().chain([last & 0x7f]);
    Ok(all.map(char::from).collect())
}

/// Reads a text that begins with its length. Each UTF-16 unit of the text has one to three bytes.
fn long_text(first: u8, mut rest: &[u8]) -> Result<String, CodecError> {
    let mut length = u64::from(first & 0x3f);
    if first & 0x40 > 0 {
        let (more, after) = read_varint(rest)?;
        length |= more.checked_mul(0x40).ok_or_else(broken)?;
        rest = after;
    }
    let length = length.checked_sub(1).ok_or_else(|| CodecError::new("the text is null"))?;
    let mut units = vec![];
    while !rest.is_empty() {
        let (unit, after) = take(rest).ok_or_else(broken)?;
        units.push(unit);
        rest = after;
    }
    match units.len() as u64 == length {
        true => String::from_utf16(&units).map_err(CodecError::new),
        false => Err(broken()),
    }
}

/// Appends a UTF-16 unit. Kryo writes each surrogate of a pair separately, so the bytes are not
/// valid UTF-8.
fn put(unit: u16, bytes: &mut Vec<u8>) {
    let six = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
    match unit {
        0..0x80 => bytes.push(unit as u8),
        0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, six(0)]),
        _ => bytes.extend([0xe0 | (unit >> 12) as u8, six(6), six(0)]),
    }
}

/// Returns the first UTF-16 unit, and the bytes after it.
fn take(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let six = |byte: u8| (byte & 0xc0 == 0x80).then_some(u16::from(byte & 0x3f));
    match *bytes {
        [one @ 0..0x80, ref rest @ ..] => Some((u16::from(one), rest)),
        [one @ 0xc0..0xe0, two, ref rest @ ..] => {
            Some((u16::from(one & 0x1f) << 6 | six(two)?, rest))
        }
        [one @ 0xe0..0xf0, two, three, ref rest @ ..] => {
            Some((u16::from(one & 0x0f) << 12 | six(two)? << 6 | six(three)?, rest))
        }
        _ => None,
    }
}

impl Codec<i64> for Kryo5Text {
    fn encode(&self, value: &i64) -> Result<Vec<u8>, CodecError> {
        Ok(number(LONG, *value))
    }

    fn decode(&self, bytes: &[u8]) -> Result<i64, CodecError> {
        read_number(LONG, bytes)
    }
}

impl Codec<i32> for Kryo5Text {
    fn encode(&self, value: &i32) -> Result<Vec<u8>, CodecError> {
        Ok(number(INT, i64::from(*value)))
    }

    fn decode(&self, bytes: &[u8]) -> Result<i32, CodecError> {
        read_number(INT, bytes)?.try_into().map_err(CodecError::new)
    }
}

impl Codec<bool> for Kryo5Text {
    fn encode(&self, value: &bool) -> Result<Vec<u8>, CodecError> {
        Ok(vec![BOOLEAN, u8::from(*value)])
    }

    fn decode(&self, bytes: &[u8]) -> Result<bool, CodecError> {
        match of_class(BOOLEAN, bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(broken()),
        }
    }
}

impl Codec<f64> for Kryo5Text {
    fn encode(&self, value: &f64) -> Result<Vec<u8>, CodecError> {
        Ok([&[DOUBLE], &value.to_le_bytes()[..]].concat())
    }

    fn decode(&self, bytes: &[u8]) -> Result<f64, CodecError> {
        let bytes = of_class(DOUBLE, bytes)?.try_into().map_err(|_| broken())?;
        Ok(f64::from_le_bytes(bytes))
    }
}

fn number(class: u8, value: i64) -> Vec<u8> {
    let mut bytes = vec![class];
    varint((value << 1 ^ value >> 63).cast_unsigned(), &mut bytes);
    bytes
}

fn read_number(class: u8, bytes: &[u8]) -> Result<i64, CodecError> {
    let (zigzag, rest) = read_varint(of_class(class, bytes)?)?;
    match rest.is_empty() {
        true => Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()),
        false => Err(broken()),
    }
}

/// Appends a number as bytes of seven bits, the lowest bits first. The ninth byte has eight bits,
/// because Kryo writes a long in at most nine bytes.
fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    for _ in 0..8 {
        if number < 0x80 {
            break;
        }
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_varint(bytes: &[u8]) -> Result<(u64, &[u8]), CodecError> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        // The ninth byte has eight bits of the number: see `varint`.
        let bits = if at == 8 { 0xff } else { 0x7f };
        number |= u64::from(byte & bits) << (7 * at);
        if at == 8 || byte & 0x80 == 0 {
            return Ok((number, &bytes[at + 1..]));
        }
    }
    Err(broken())
}

/// Returns the bytes after the class number, or an error if that number is not `class`.
fn of_class(class: u8, bytes: &[u8]) -> Result<&[u8], CodecError> {
    match bytes {
        [first, rest @ ..] if *first == class => Ok(rest),
        [0] => Err(CodecError::new("the value is null")),
        [] => Err(broken()),
        [first, ..] => Err(of_another_class(*first, class)),
    }
}

fn of_another_class(first: u8, class: u8) -> CodecError {
    CodecError::new(match (types(first), types(class)) {
        (Some((found, rust)), Some((wanted, wanted_rust))) => {
            let article = if class == INT { "an" } else { "a" };
            format!(
                "the value is a Java {found} (`{rust}`), not {article} {wanted} (`{wanted_rust}`)"
            )
        }
        _ => format!("the bytes have the Kryo class number {first}, not {class}"),
    })
}

/// Returns the name of a class in Java, and of the same type in Rust.
fn types(class: u8) -> Option<(&'static str, &'static str)> {
    Some(match class {
        INT => ("Integer", "i32"),
        STRING => ("String", "String"),
        BOOLEAN => ("Boolean", "bool"),
        LONG => ("Long", "i64"),
        DOUBLE => ("Double", "f64"),
        _ => return None,
    })
}

fn broken() -> CodecError {
    CodecError::new("the bytes were not written by Kryo5Codec")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::hash::hash;

    fn shared<T: PartialEq + std::fmt::Debug>(value: T, expected: &[u8])
    where
        Kryo5Text: Codec<T>,
    {
        assert_eq!(Kryo5Text.encode(&value).unwrap(), expected, "{value:?}");
        assert_eq!(Kryo5Text.decode(expected).unwrap(), value, "{expected:?}");
        for end in 0..expected.len() {
            let cut = Codec::<T>::decode(&Kryo5Text, &expected[..end]);
            assert!(cut.is_err(), "{value:?} cut at {end}");
        }
    }

    #[test]
    fn kryo_codec_writes_text_with_the_bytes_of_java() {
        let text = |text: &str, bytes: &[u8]| shared(text.to_owned(), bytes);
        text("test1", b"\x03test\xb1");
        text("42", b"\x034\xb2");
        text("", &[3, 0x81]);
        text("a", &[3, 0x82, b'a']);
        text("é", &[3, 0x82, 0xc3, 0xa9]);
        text("🔒", &[3, 0x83, 0xed, 0xa0, 0xbd, 0xed, 0xb4, 0x92]);
        text(&"x".repeat(40), &[&[3, 0xa9][..], &[b'x'; 40]].concat());
        text(&"x".repeat(80), &[&[3, 0xd1, 1][..], &[b'x'; 80]].concat());
    }

    #[test]
    fn kryo_codec_writes_numbers_with_the_bytes_of_java() {
        shared(42_i32, &[2, 0x54]);
        shared(42_i64, &[9, 0x54]);
        shared(-1_i64, &[9, 1]);
        shared(300_i64, &[9, 0xd8, 4]);
        shared(i64::MIN, &[9, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
        shared(i32::MIN, &[2, 255, 255, 255, 255, 15]);
        shared(true, &[5, 1]);
        shared(1.5_f64, &[10, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    }

    #[test]
    fn hash_of_a_kryo_key_matches_redisson() {
        for (text, expected) in [
            ("test1", "1YYJvWKPQAOHqhq/jABzZA"),
            ("42", "sBznBu9nWKelQvUeofpN5Q"),
            ("orders:42", "Dcvf5cULbyOzFBD9Bo5WQw"),
        ] {
            assert_eq!(hash(&Kryo5Text.encode(&text.to_owned()).unwrap()), expected);
        }
        assert_eq!(hash(&Kryo5Text.encode(&42_i64).unwrap()), "VQXPsX8R0Nuk4PCULzvfjg");
    }

    #[test]
    fn kryo_codec_refuses_a_value_of_another_class() {
        let error = Codec::<i64>::decode(&Kryo5Text, &[2, 0x54]).unwrap_err();
        assert_eq!(error.to_string(), "the value is a Java Integer (`i32`), not a Long (`i64`)");
        let float = Codec::<i32>::decode(&Kryo5Text, &[4, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(float.to_string(), "the bytes have the Kryo class number 4, not 2");
        let null = Codec::<String>::decode(&Kryo5Text, &[0]).unwrap_err();
        assert_eq!(null.to_string(), "the value is null");
        for odd in [&[3, 0xff][..], &[3, 0x81, 0], &[3, 0x82, 0xff], &[3, 0x80], &[3, 0x83, 0xe0]] {
            assert!(Codec::<String>::decode(&Kryo5Text, odd).is_err(), "{odd:?}");
        }
    }
}
