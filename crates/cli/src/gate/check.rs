//! Mistakes in a plan, or in the arguments of `--init`, that a lab would find only after its boot.

use std::path::Path;

use clap::ValueEnum;

use super::args::GateArgs;
use super::plan::{GateMachine, GatePlan, PlannedVmm};
use crate::lab;
use crate::suites::vmms::{self, VmmDeviceName};
use vmbell_bench::did_you_mean;

/// Fails if something in the plan cannot be booted or measured here; the error says where it is named.
pub(super) fn check(
    plan: &GatePlan,
    machines: &[GateMachine],
    args: &GateArgs,
) -> Result<(), String> {
    let file = args.file.display();
    let of = |key: &str, error: String| match args.init {
        true => format!("--{key}: {error}"),
        false => format!("{file}: {key}: {error}"),
    };
    let mut devices = Vec::new();
    for name in &plan.virtio {
        devices.push(device(name).map_err(|error| of("virtio", error))?);
    }
    if devices.is_empty() {
        devices = vmms::DEVICES.into();
    }
    for name in &plan.rows {
        vmms::row(name).map_err(|error| of("rows", format!("'{name}': {error}")))?;
    }
    let dashes = if args.init { "--" } else { "" };
    vmms::check_rows(&plan.rows, &devices, plan.linux, dashes)
        .map_err(|error| of("rows", error))?;
    for machine in machines {
        let [kernels, cpus] = match args.init {
            true => ["kernel", "cpu"],
            false => ["kernels", "cpus"],
        };
        kernel(&machine.kernel).map_err(|error| of(kernels, error))?;
        if let Some(cpu) = &machine.cpu {
            lab::cpu_name(cpu).map_err(|error| of(cpus, format!("{cpu}: {error}")))?;
        }
    }
    for (name, vmm) in &plan.vmm {
        let is_given = args.vmm.iter().any(|(given, _)| given == name);
        check_vmm(name, vmm).map_err(|error| match (is_given, args.init) {
            (true, _) => format!("--vmm {name}: {error}"),
            (false, true) => error,
            (false, false) => format!("{file}: [vmm.{name}]: {error}"),
        })?;
    }
    Ok(())
}

fn device(name: &str) -> Result<VmmDeviceName, String> {
    VmmDeviceName::from_str(name, false).map_err(|_| {
        let all = VmmDeviceName::value_variants().iter();
        let names: Vec<&str> = all.map(|device| device.name()).collect();
        let hint = did_you_mean(name, &names);
        format!(
            "no device is called '{name}'{hint}; there are {}",
            names.join(", ")
        )
    })
}

fn kernel(name: &str) -> Result<(), String> {
    lab::kernel(name.into()).map_err(|error| format!("{name}: {error}"))?;
    match name.starts_with("debian:") || Path::new(name).exists() {
        true => Ok(()),
        false => Err(format!(
            "there is no file {name}; a kernel of Debian is debian:VERSION"
        )),
    }
}

fn check_vmm(name: &str, vmm: &PlannedVmm) -> Result<(), String> {
    let program = vmms::program_in_lab(name, vmm.command.as_deref())?;
    for file in &vmm.with {
        let host = file.split_once(':').map(|(host, _)| host);
        if ![Some(file.as_str()), host]
            .into_iter()
            .flatten()
            .any(|path| Path::new(path).exists())
        {
            return Err(format!("with: there is no file {file}"));
        }
    }
    // The program may be among the copied files.
    match program {
        Some(program) if vmm.with.is_empty() => lab::to_copy(&program).map(drop),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "check_test.rs"]
mod tests;
