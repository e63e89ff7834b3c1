//! The environment of a program in L1.

use std::ffi::OsString;

use vmbell_bench::timing;
use vmbell_report::Timing;

/// Variables that describe this host and would be wrong in L1.
const HOST_VARIABLES: &[&str] = &[
    "HOME",
    "LD_PRELOAD",
    "LOGNAME",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHLVL",
    "TMPDIR",
    "USER",
    "XDG_RUNTIME_DIR",
    "_",
];
/// L1's values of these variables.
const L1_VARIABLES: &[(&str, &str)] = &[
    ("HOME", "/root"),
    (
        "PATH",
        // The run's programs take precedence over the busybox.
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/lab/bin",
    ),
    ("TMPDIR", "/tmp"),
];

/// This process's environment, without the variables that describe this host.
pub(super) fn environment_of_host() -> Vec<(OsString, OsString)> {
    let host =
        |(name, _): &(OsString, OsString)| !HOST_VARIABLES.iter().any(|variable| *variable == name);
    std::env::vars_os().filter(host).collect()
}

/// Adds L1's variables to `environment`: its paths, the caller's variables `own`, and the timing of its clock.
pub(super) fn environment_in_l1(
    mut environment: Vec<(OsString, OsString)>,
    own: &[(String, String)],
    timing: Timing,
) -> Vec<(OsString, OsString)> {
    let pairs = L1_VARIABLES.iter().copied();
    let own = own
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let timing = (timing::VARIABLE, timing.name());
    environment.extend(
        pairs
            .chain(own)
            .chain([timing])
            .map(|(name, value)| (name.into(), value.into())),
    );
    environment
}

/// Parses `NAME=VALUE`.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not of the form NAME=VALUE".to_owned()),
    }
}
