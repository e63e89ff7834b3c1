//! alioth's command line for the image.

use std::ffi::OsString;

use super::args::Device;
use super::launcher::Setup;

/// The program.
pub(super) const PROGRAM: &str = "alioth";

/// The arguments of a boot.
pub(super) fn arguments(setup: &Setup<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["boot", "--pvh"].map(Into::into).into();
    words.push(setup.places.image.into());
    words.extend(["-c".into(), setup.places.cmdline.into()]);
    let cpus = format!("count={}", setup.cpus);
    words.extend(["--cpu", &cpus, "--memory", "size=64M"].map(OsString::from));
    if setup.has(Device::Rng) {
        words.push("--entropy".into());
    }
    if setup.has(Device::Blk) {
        let mut disk = OsString::from("file,path=");
        disk.push(setup.places.disk);
        words.extend(["--blk".into(), disk]);
    }
    words
}
