//! The device that the environment chooses.

use super::{Device, DeviceUuid};
use crate::error::{DeviceError, Result};

/// What `WARPSMITH_DEVICE` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Unset,
    Cpu,
    Gpu(GpuChoice),
}

/// One of the machine's GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GpuChoice {
    Ordinal(usize),
    Uuid(DeviceUuid),
    PciBusId(String),
}

impl GpuChoice {
    pub(crate) fn open(&self) -> Result<Device> {
        match self {
            Self::Ordinal(ordinal) => Device::gpu(*ordinal),
            Self::Uuid(uuid) => Device::with_uuid(*uuid),
            Self::PciBusId(id) => Device::with_pci_bus_id(id),
        }
    }
}

pub(crate) fn parse_choice(value: &str) -> Result<Choice, DeviceError> {
    let choice = value.trim().to_ascii_lowercase();
    match choice.as_str() {
        "" => return Ok(Choice::Unset),
        "cpu" => return Ok(Choice::Cpu),
        "gpu" => return Ok(Choice::Gpu(GpuChoice::Ordinal(0))),
        _ => {}
    }
    let name = choice.strip_prefix("gpu:").unwrap_or(&choice);
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let gpu = match (name.parse(), name.parse()) {
        (Ok(ordinal), _) if is_number && name.len() < 10 => GpuChoice::Ordinal(ordinal),
        (_, Ok(uuid)) => GpuChoice::Uuid(uuid),
        _ if is_pci_bus_id(name) => GpuChoice::PciBusId(name.to_owned()),
        _ => return Err(DeviceError::UnknownChoice { value: value.to_owned() }),
    };
    Ok(Choice::Gpu(gpu))
}

/// Whether a text is `domain:bus:device.function`, or as much without the domain, in hexadecimal digits.
fn is_pci_bus_id(text: &str) -> bool {
    let is_hex = |part: &str| !part.is_empty() && part.len() <= 8 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((place, function)) = text.split_once('.') else { return false };
    let parts: Vec<&str> = place.split(':').collect();
    matches!(parts.len(), 2 | 3) && parts.iter().all(|part| is_hex(part)) && is_hex(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_device() {
        let ordinal = |number| Choice::Gpu(GpuChoice::Ordinal(number));
        let uuid = "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        let by_uuid = Choice::Gpu(GpuChoice::Uuid(uuid.parse().unwrap()));
        for (text, expected) in [
            ("", Choice::Unset),
            ("cpu", Choice::Cpu),
            (" GPU ", ordinal(0)),
            ("gpu:3", ordinal(3)),
            ("1", ordinal(1)),
            (uuid, by_uuid.clone()),
            (&format!("gpu:{uuid}"), by_uuid),
            ("0000:3B:00.0", Choice::Gpu(GpuChoice::PciBusId("0000:3b:00.0".to_owned()))),
            ("3b:00.0", Choice::Gpu(GpuChoice::PciBusId("3b:00.0".to_owned()))),
        ] {
            assert_eq!(parse_choice(text).unwrap(), expected, "{text:?}");
        }
        for wrong in ["gpu:", "gpu:x", "cuda", "gpu:-1", "+1", "1.5", "GPU-0f1e", "3b:00", "99999999999999999999"] {
            let Err(error) = parse_choice(wrong) else { panic!("{wrong:?} was taken") };
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
