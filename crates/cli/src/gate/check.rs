//! Mistakes in a budget file, or in the arguments of `--init`, that a lab would only find after its boot.

use std::path::Path;

use clap::ValueEnum;

use super::args::GateArgs;
use super::budget::{Budget, Vmm};
use crate::args::suggest::did_you_mean;
use crate::lab;
use crate::suites::vmms::{self, VmmDeviceName};

/// Fails if what the budget names cannot be booted or measured here, or if it holds no figures; the error names the place.
pub(super) fn check(budget: &Budget, kernels: &[String], args: &GateArgs) -> Result<(), String> {
    let file = args.file.display();
    let of = |key: &str, error: String| match args.init {
        true => format!("--{key}: {error}"),
        false => format!("{file}: {key}: {error}"),
    };
    let mut devices = Vec::new();
    for name in &budget.virtio {
        devices.push(device(name).map_err(|error| of("virtio", error))?);
    }
    if devices.is_empty() {
        devices = vmms::DEVICES.into();
    }
    for name in &budget.rows {
        vmms::row(name).map_err(|error| of("rows", format!("'{name}': {error}")))?;
    }
    let dashes = if args.init { "--" } else { "" };
    vmms::check_rows(&budget.rows, &devices, budget.linux, dashes)
        .map_err(|error| of("rows", error))?;
    for name in kernels {
        let key = if args.init { "kernel" } else { "kernels" };
        kernel(name).map_err(|error| of(key, error))?;
    }
    for (name, vmm) in &budget.vmm {
        let is_given = args.vmm.iter().any(|(given, _)| given == name);
        check_vmm(name, vmm).map_err(|error| match (is_given, args.init) {
            (true, _) => format!("--vmm {name}: {error}"),
            (false, true) => error,
            (false, false) => format!("{file}: [vmm.{name}]: {error}"),
        })?;
    }
    if args.init || args.accept {
        return Ok(());
    }
    let held = budget.figures(kernels);
    for kernel in kernels {
        for name in budget.vmm.keys() {
            let mut places = held.iter();
            let is_held = places.any(|(place, held)| {
                (&place.kernel, &place.vmm) == (kernel, name) && !held.rows.is_empty()
            });
            if !is_held {
                return Err(format!(
                    "{file}: [vmm.{name}] has no figures on {kernel}: `vmbell gate --accept` measures them"
                ));
            }
        }
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

fn check_vmm(name: &str, vmm: &Vmm) -> Result<(), String> {
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
    // What is copied may be the program.
    match program {
        Some(program) if vmm.with.is_empty() => lab::to_copy(&program).map(drop),
        _ => Ok(()),
    }
}
