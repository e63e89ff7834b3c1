//! Firecracker, by its HTTP API (`src/firecracker/swagger/firecracker.yaml`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    COMMAND, MEMORY_MIB, NO_MIGRATION, SweepGuest, SweptVm, SweptVmm, VmError, answered, find,
    spawn,
};
use crate::process::RunningProgram;
use crate::process::program::no_kvm;
use vmbell_bench::CommandLimit;
use vmbell_sweep::api::http;
use vmbell_sweep::report::{Device, Event};

pub(super) const NAME: &str = "firecracker";
const STATE_FILE: &str = "state";
const MEMORY_FILE: &str = "memory";

/// Firecracker.
#[derive(Clone, Debug)]
pub(super) struct Firecracker {
    program: Option<String>,
}

impl Firecracker {
    pub(super) fn new(program: Option<String>) -> Self {
        Self { program }
    }

    fn launch(&self, guest: &SweepGuest<'_>, config: Option<&Path>) -> Result<FirecrackerVm> {
        let program = self.program().map_err(anyhow::Error::msg)?;
        let socket = guest.desk.fresh("api");
        let mut words = vec![program.into(), "--api-sock".into(), socket.clone().into()];
        if let Some(config) = config {
            words.extend(["--config-file".into(), config.into()]);
        }
        Ok(FirecrackerVm {
            process: spawn(&words)?,
            socket,
            limit: guest.desk.limit.clone(),
        })
    }
}

impl SweptVmm for Firecracker {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> Result<PathBuf, String> {
        let program = find(self.program.as_ref(), NAME)?;
        no_kvm().map_or(Ok(program), Err)
    }

    fn lacks(&self, event: Event, device: Device) -> Option<String> {
        match (event, device) {
            (_, Device::Net) => Some("a restored VM needs the tap of the saved one".to_owned()),
            (Event::Migration, _) => Some(NO_MIGRATION.to_owned()),
            _ => None,
        }
    }

    fn limits(&self, _: Device) -> bool {
        true
    }

    fn start(&self, guest: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError> {
        let path = guest.desk.fresh("config");
        let text = config(guest).to_string();
        fs::write(&path, text).context("cannot write a configuration")?;
        Ok(Box::new(self.launch(guest, Some(&path))?))
    }

    fn restore(
        &self,
        guest: &SweepGuest<'_>,
        snapshot: &Path,
    ) -> Result<Box<dyn SweptVm>, VmError> {
        let mut vm = self.launch(guest, None)?;
        let body = json!({
            "snapshot_path": snapshot.join(STATE_FILE),
            "mem_backend": { "backend_path": snapshot.join(MEMORY_FILE), "backend_type": "File" },
            "resume_vm": true,
        });
        vm.send("PUT", "/snapshot/load", &body)?;
        Ok(Box::new(vm))
    }

    fn memory_file(&self, snapshot: &Path) -> Option<PathBuf> {
        Some(snapshot.join(MEMORY_FILE))
    }
}

/// The configuration of a guest with the device of its traffic.
fn config(guest: &SweepGuest<'_>) -> Value {
    let limiter = match guest.limiter_ms {
        0 => json!(null),
        ms => json!({ "ops": { "size": 1, "refill_time": ms } }),
    };
    let mut config = json!({
        "boot-source": {
            "kernel_image_path": guest.desk.image(),
            "boot_args": guest.cmdline,
        },
        "machine-config": { "vcpu_count": 1, "mem_size_mib": MEMORY_MIB },
        "drives": [],
    });
    match guest.traffic.device {
        Device::Blk => {
            config["drives"] = json!([{
                "drive_id": "disk",
                "path_on_host": guest.desk.disk(),
                "is_root_device": false,
                "is_read_only": true,
                "rate_limiter": limiter,
            }]);
        }
        // `lacks` refuses it.
        Device::Net => {}
        Device::Rng => config["entropy"] = json!({ "rate_limiter": limiter }),
    }
    config
}

/// A Firecracker that runs.
struct FirecrackerVm {
    process: RunningProgram,
    socket: PathBuf,
    limit: CommandLimit,
}

impl FirecrackerVm {
    fn send(&mut self, method: &str, path: &str, body: &Value) -> Result<(), VmError> {
        let (body, process) = (body.to_string(), &self.process);
        let has_ended = || process.has_exited().unwrap_or(true);
        let result = http::request(&self.socket, method, path, &body, COMMAND, has_ended);
        answered(&mut self.process, &self.limit, result.map(drop))
    }
}

impl SweptVm for FirecrackerVm {
    fn process(&mut self) -> &mut RunningProgram {
        &mut self.process
    }

    fn pause(&mut self) -> Result<(), VmError> {
        self.send("PATCH", "/vm", &json!({ "state": "Paused" }))
    }

    fn resume(&mut self) -> Result<(), VmError> {
        self.send("PATCH", "/vm", &json!({ "state": "Resumed" }))
    }

    fn snapshot(&mut self, folder: &Path) -> Result<(), VmError> {
        let body = json!({
            "snapshot_type": "Full",
            "snapshot_path": folder.join(STATE_FILE),
            "mem_file_path": folder.join(MEMORY_FILE),
        });
        self.send("PUT", "/snapshot/create", &body)
    }
}
