//! Cloud Hypervisor, by its HTTP API (`vmm/src/api/openapi/cloud-hypervisor.yaml`).

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::{
    COMMAND, MEMORY_MIB, NO_MIGRATION, SweepGuest, SweptVm, SweptVmm, VmError, answered, filled,
    find, spawn, text,
};
use crate::process::RunningProgram;
use crate::process::program::no_kvm;
use crate::suites::net::try_tap;
use vmbell_bench::CommandLimit;
use vmbell_sweep::api::{ApiError, http};
use vmbell_sweep::report::{Device, Event};

pub(super) const NAME: &str = "cloud-hypervisor";

/// Cloud Hypervisor.
#[derive(Clone, Debug)]
pub(super) struct CloudHypervisor {
    program: Option<String>,
}

impl CloudHypervisor {
    pub(super) fn new(program: Option<String>) -> Self {
        Self { program }
    }

    fn launch(
        &self,
        guest: &SweepGuest<'_>,
        words: impl IntoIterator<Item = OsString>,
    ) -> Result<CloudHypervisorVm> {
        let program = self.program().map_err(anyhow::Error::msg)?;
        let socket = guest.desk.fresh("api");
        let mut all = vec![program.into(), "--api-socket".into(), socket.clone().into()];
        all.extend(words);
        Ok(CloudHypervisorVm {
            process: spawn(&all)?,
            socket,
            limit: guest.desk.limit.clone(),
        })
    }
}

/// Why it has no network card, for which it makes a tap.
fn no_tap(tried: io::Result<()>) -> Option<String> {
    let error = tried.err()?;
    Some(match error.kind() {
        ErrorKind::NotFound => "there is no /dev/net/tun: load the module tun".to_owned(),
        _ => format!("it cannot make a tap: {error}"),
    })
}

impl SweptVmm for CloudHypervisor {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> Result<PathBuf, String> {
        let program = find(self.program.as_ref(), NAME)?;
        no_kvm().map_or(Ok(program), Err)
    }

    fn lacks(&self, event: Event, device: Device) -> Option<String> {
        match (event, device) {
            (Event::Migration, _) => Some(NO_MIGRATION.to_owned()),
            (_, Device::Net) => no_tap(try_tap()),
            _ => None,
        }
    }

    fn limits(&self, device: Device) -> bool {
        device != Device::Rng
    }

    fn start(&self, guest: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError> {
        let (image, disk) = (guest.desk.image(), guest.desk.disk());
        let size = MEMORY_MIB.to_string();
        let period = guest.limiter_ms.to_string();
        let values = [
            ("{image}", text(&image)?),
            ("{disk}", text(&disk)?),
            ("{size}", &size),
            ("{period}", &period),
        ];
        let device = match (guest.traffic.device, guest.limiter_ms) {
            (Device::Blk, 0) => "--disk path={disk},image_type=raw,readonly=on",
            (Device::Blk, _) => {
                "--disk path={disk},image_type=raw,readonly=on,ops_size=1,ops_refill_time={period}"
            }
            // It makes a tap.
            (Device::Net, 0) => "--net mac=02:00:00:00:00:01",
            (Device::Net, _) => "--net mac=02:00:00:00:00:01,ops_size=1,ops_refill_time={period}",
            (Device::Rng, _) => "--rng src=/dev/urandom",
        };
        let words = format!(
            "--kernel {{image}} --cpus boot=1 --memory size={{size}}M --serial tty --console off {device}"
        );
        let cmdline = ["--cmdline".into(), guest.cmdline.into()];
        let words = filled(&words, &values).into_iter().chain(cmdline);
        Ok(Box::new(self.launch(guest, words)?))
    }

    fn restore(
        &self,
        guest: &SweepGuest<'_>,
        snapshot: &Path,
    ) -> Result<Box<dyn SweptVm>, VmError> {
        let values = [("{snapshot}", text(snapshot)?)];
        let words = "--restore source_url=file://{snapshot}";
        let mut vm = self.launch(guest, filled(words, &values))?;
        vm.resume_when_restored()?;
        Ok(Box::new(vm))
    }

    fn memory_file(&self, snapshot: &Path) -> Option<PathBuf> {
        Some(snapshot.join("memory-ranges"))
    }
}

/// A Cloud Hypervisor that runs.
struct CloudHypervisorVm {
    process: RunningProgram,
    socket: PathBuf,
    limit: CommandLimit,
}

impl CloudHypervisorVm {
    fn request(&self, command: &str, body: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/vm.{command}");
        let has_ended = || self.process.has_exited().unwrap_or(true);
        http::request(&self.socket, "PUT", &path, body, COMMAND, has_ended).map(drop)
    }

    fn put(&mut self, command: &str, body: &str) -> Result<(), VmError> {
        let result = self.request(command, body);
        answered(&mut self.process, &self.limit, result)
    }

    /// Its API answers before the snapshot is loaded, and refuses a VM that is not there yet.
    fn resume_when_restored(&mut self) -> Result<(), VmError> {
        let begun = std::time::Instant::now();
        loop {
            match self.request("resume", "") {
                Err(ApiError::Refused { .. }) if begun.elapsed() < COMMAND => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                resumed => return answered(&mut self.process, &self.limit, resumed),
            }
        }
    }
}

impl SweptVm for CloudHypervisorVm {
    fn process(&mut self) -> &mut RunningProgram {
        &mut self.process
    }

    fn pause(&mut self) -> Result<(), VmError> {
        self.put("pause", "")
    }

    fn resume(&mut self) -> Result<(), VmError> {
        self.put("resume", "")
    }

    fn snapshot(&mut self, folder: &Path) -> Result<(), VmError> {
        let body = json!({ "destination_url": format!("file://{}", text(folder)?) });
        self.put("snapshot", &body.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_may_not_make_a_tap_has_no_network_card() {
        assert_eq!(no_tap(Ok(())), None);
        for (errno, expected) in [
            (libc::EPERM, "it cannot make a tap: Operation not permitted"),
            (libc::ENOENT, "load the module tun"),
        ] {
            let reason = no_tap(Err(io::Error::from_raw_os_error(errno))).unwrap();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
