//! `--cpu`: the CPUs that a command pins its threads to.

use anyhow::Result;

use super::exit::Usage;
use super::values::CpuList;
use vmbell_bench::affinity::{allowed_cpus, default_pair};
use vmbell_report::cpu_list;

/// The CPUs of `--cpu`, or an error if this process may not use all of them; without `--cpu`, the
/// default pair.
pub(super) fn choose(wanted: Option<&CpuList>) -> Result<Vec<usize>> {
    let allowed = allowed_cpus()?;
    let Some(CpuList(wanted)) = wanted else {
        return Ok(default_pair(&allowed));
    };
    match wanted.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(wanted.clone()),
        Some(absent) => Err(Usage::new(format!(
            "--cpu: CPU {absent} does not exist or is not allowed for this process, which may \
             use {}",
            cpu_list::Display(&allowed)
        ))
        .into()),
    }
}
