//! The UUID of a GPU.

use std::fmt;
use std::str::FromStr;

/// The number that tells a GPU from all others, also after the machine was started anew.
///
/// It prints as `nvidia-smi -L` lists it, and is read from the same text with or without `GPU-` or `MIG-` before it.
///
/// # Examples
/// ```
/// use warpsmith::DeviceUuid;
///
/// let text = "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
/// let uuid: DeviceUuid = text.parse()?;
/// assert_eq!(uuid.to_string(), text);
/// assert_eq!(uuid.bytes()[0], 0x0f);
/// # Ok::<(), warpsmith::ParseUuidError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceUuid([u8; 16]);

impl DeviceUuid {
    /// The UUID with these bytes, in the order in which it is printed.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, in the order in which it is printed.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU-")?;
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is no UUID of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no UUID of a GPU; one has 32 hexadecimal digits, as in GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")]
#[non_exhaustive]
pub struct ParseUuidError {
    /// The text.
    pub text: String,
}

impl FromStr for DeviceUuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let wrong = || ParseUuidError { text: text.to_owned() };
        let trimmed = text.trim();
        let has_prefix =
            trimmed.get(..4).is_some_and(|start| ["gpu-", "mig-"].iter().any(|p| start.eq_ignore_ascii_case(p)));
        let digits = if has_prefix { &trimmed[4..] } else { trimmed };
        // The hyphens stand where they are printed, or there are none.
        let plain: String = match digits.len() {
            36 if [8, 13, 18, 23].iter().all(|&at| digits.as_bytes()[at] == b'-') => {
                digits.chars().filter(|&c| c != '-').collect()
            }
            32 => digits.to_owned(),
            _ => return Err(wrong()),
        };
        if plain.len() != 32 || !plain.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(&plain, 16).map_err(|_| wrong())?;
        Ok(Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uuid_is_read_as_it_is_printed() {
        // A linear congruential sequence, the same each time.
        let mut state = 1u128;
        for _ in 0..1000 {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            let uuid = DeviceUuid::from_bytes(state.to_be_bytes());
            let text = uuid.to_string();
            let plain = text[4..].replace('-', "");
            for spelling in [text.as_str(), &text[4..], &plain, &text.to_uppercase(), &text.replace("GPU", "MIG")] {
                assert_eq!(spelling.parse(), Ok(uuid), "{spelling}");
            }
        }
    }

    #[test]
    fn what_is_no_uuid_is_told() {
        let good = "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        let shifted = "0f1e2d3-c4b5a-6978-8796-a5b4c3d2e1f0";
        let signed = format!("+{}", "1".repeat(31));
        for wrong in
            ["", "GPU-", "0", &good[..39], &format!("{good}0"), shifted, &signed, "TPU-0f1e", "é".repeat(16).as_str()]
        {
            let error = wrong.parse::<DeviceUuid>().unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
