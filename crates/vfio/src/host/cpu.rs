//! Whose CPU this is, which decides what an IOMMU is called and which option turns it on.

use super::files;
use super::root::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuVendor {
    Intel,
    Amd,
    Arm,
    Other,
}

impl CpuVendor {
    pub(super) fn read(host: &Host) -> Self {
        let text = files::long_text(&host.proc("cpuinfo")).unwrap_or_default();
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
        };
        match field("vendor_id").as_deref() {
            Some("GenuineIntel") => Self::Intel,
            Some("AuthenticAMD" | "HygonGenuine") => Self::Amd,
            None if field("CPU implementer").is_some() => Self::Arm,
            _ => Self::Other,
        }
    }
}
