//! Limits of a control group: memory, and bandwidth and I/Os of a device.

use std::fmt;
use std::str::FromStr;

use crate::size::Bytes;

/// Number of a block device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DeviceNumber {
    /// Driver.
    pub major: u32,
    /// Device of that driver.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse().ok();
        let both = text.split_once(':').and_then(|(a, b)| Some((number(a)?, number(b)?)));
        let (major, minor) = both.ok_or_else(|| format!("`{text}` is no device number"))?;
        Ok(Self { major, minor })
    }
}

/// Largest rates of a block device. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoLimits {
    /// Bytes read per second.
    pub read_bytes_s: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_s: Option<u64>,
    /// Reads per second.
    pub read_ios_s: Option<u64>,
    /// Writes per second.
    pub write_ios_s: Option<u64>,
}

impl IoLimits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Multiplies each limit by `factor`, to at least 1. What is unlimited stays unlimited.
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |limit: Option<u64>| limit.map(|n| ((n as f64 * factor) as u64).max(1));
        Self {
            read_bytes_s: scale(self.read_bytes_s),
            write_bytes_s: scale(self.write_bytes_s),
            read_ios_s: scale(self.read_ios_s),
            write_ios_s: scale(self.write_ios_s),
        }
    }

    /// Returns the four limits, with version 1's file names and version 2's keys.
    pub(super) fn parts(&self) -> [(Option<u64>, &'static str, &'static str); 4] {
        [
            (self.read_bytes_s, "blkio.throttle.read_bps_device", "rbps"),
            (self.write_bytes_s, "blkio.throttle.write_bps_device", "wbps"),
            (self.read_ios_s, "blkio.throttle.read_iops_device", "riops"),
            (self.write_ios_s, "blkio.throttle.write_iops_device", "wiops"),
        ]
    }
}

impl fmt::Display for IoLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("no limit");
        }
        let rate = |n: Option<u64>| n.map_or("any".to_owned(), |n| format!("{}/s", Bytes(n)));
        let ios = |n: Option<u64>| n.map_or("any".to_owned(), |n| n.to_string());
        write!(
            f,
            "read {} and {} I/Os per second, write {} and {}",
            rate(self.read_bytes_s),
            ios(self.read_ios_s),
            rate(self.write_bytes_s),
            ios(self.write_ios_s)
        )
    }
}

/// The limits with which a group is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Memory, page cache included, bytes.
    pub memory: Option<u64>,
    /// The device (a whole disk) whose I/O is counted and limited. Without a device the group has
    /// no I/O controller: on version 1 its processes then stay in their current I/O group, under
    /// its limits.
    pub device: Option<DeviceNumber>,
    /// Limits of that device.
    pub io: IoLimits,
}

impl Limits {
    /// Returns the limits with those of I/O multiplied by `factor` and the same memory.
    pub fn scaled(&self, factor: f64) -> Self {
        Self { io: self.io.scaled(factor), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_keeps_unlimited_values_and_never_reaches_zero() {
        let io = IoLimits { read_ios_s: Some(100), write_bytes_s: Some(3), ..IoLimits::default() };
        let half = Limits { memory: Some(7), device: None, io }.scaled(0.5);
        assert_eq!(half.memory, Some(7));
        assert_eq!((half.io.read_ios_s, half.io.write_bytes_s), (Some(50), Some(1)));
        assert_eq!(half.io.read_bytes_s, None);
        assert_eq!(io.scaled(0.0).read_ios_s, Some(1));
    }

    #[test]
    fn device_numbers_are_read_as_the_kernel_writes_them() {
        assert_eq!("254:0\n".parse(), Ok(DeviceNumber { major: 254, minor: 0 }));
        assert!("254".parse::<DeviceNumber>().is_err());
        assert_eq!(DeviceNumber { major: 7, minor: 3 }.to_string(), "7:3");
    }
}
