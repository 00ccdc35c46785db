//! Bytes as text: base64 inside JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Bytes that are written into JSON as base64.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::Bytes;

    #[test]
    fn every_byte_survives_the_text() {
        let all = Bytes((0..=255).collect());
        let text = serde_json::to_string(&all).unwrap();
        assert!(!text.contains('\n'), "a frame is one line: {text}");
        assert_eq!(serde_json::from_str::<Bytes>(&text).unwrap(), all);
    }

    #[test]
    fn text_that_is_not_base64_is_refused() {
        assert!(serde_json::from_str::<Bytes>("\"***\"").is_err());
    }
}
