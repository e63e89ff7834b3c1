//! The tables of `vmbell top`, 80 columns wide.

use std::fmt::Write;

use super::{cpu_seconds, halts, optional, vms};
use vmbell_top::bpf::Metric;
use vmbell_top::model::{Address, Irqfd, NameSource, Space, Vm};
use vmbell_top::process;
use vmbell_top::reading::{Reading, Sources};

/// How many addresses of a VM are shown.
const ADDRESSES: usize = 8;

/// Shows what happened in a reading's interval.
pub(super) fn table(sources: &Sources, reading: &Reading) -> String {
    let vms = vms(sources, reading);
    let mut out = header(sources, reading, vms.len());
    let seconds = reading.interval.as_secs_f64();
    if vms.is_empty() {
        out += "no VM runs on KVM here\n\n";
        return out;
    }
    out += &vm_table(&vms, seconds);
    out += &halts::table(&vms, seconds);
    out += &optional::exits(&vms, seconds);
    out += &address_table(&vms, seconds);
    out += &irqfd_table(&vms, seconds);
    out.push('\n');
    out
}

fn header(sources: &Sources, reading: &Reading, count: usize) -> String {
    let mut names = Vec::new();
    names.extend(sources.bpf().is_ok().then_some("bpf"));
    names.extend(sources.counters().is_ok().then_some("counters"));
    let plural = if count == 1 { "" } else { "s" };
    let mut out = format!(
        "vmbell top: {count} VM{plural}, {:.2} s, by {}\n",
        reading.interval.as_secs_f64(),
        names.join(" and ")
    );
    for note in notes(sources, reading) {
        let _ = writeln!(out, "{note}");
    }
    out.push('\n');
    out
}

/// What is missing, and why: a line each.
fn notes(sources: &Sources, reading: &Reading) -> Vec<String> {
    let missing = |(source, reasons): (&'static str, Vec<String>)| {
        reasons
            .into_iter()
            .map(move |reason| format!("no {source}{reason}"))
    };
    let bpf = match sources.bpf() {
        Ok(_) => "",
        Err(_) => "bpf: ",
    };
    let bpf = missing((bpf, sources.missing_of_bpf()));
    let mut notes: Vec<String> = bpf
        .chain(missing(("counters: ", sources.missing_of_counters())))
        .collect();
    if reading.unreadable > 0 {
        notes.push(format!(
            "{} processes cannot be looked at: it takes root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
            reading.unreadable
        ));
    }
    if let Some(bpf) = reading.bpf.as_ref().filter(|bpf| bpf.lost > 0) {
        notes.push(format!(
            "lost: {} events were not counted, so counts are too low",
            bpf.lost
        ));
    }
    notes
}

fn vm_table(vms: &[Vm], seconds: f64) -> String {
    let mut out = format!(
        "{:>7} {:<10} {:>4} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7} {:>5} {:>4}\n",
        "PID",
        "VM",
        "vCPU",
        "CORE",
        "EXITS/s",
        "VMM/s",
        "RINGS/s",
        "IRQFD/s",
        "IOCTL/s",
        "EOI/s",
        "PV"
    );
    for vm in vms {
        let count = |metric| vm.counts.get(&metric).copied();
        let exits = vm
            .statistics
            .as_ref()
            .and_then(|all| all.get("exits").copied());
        let by_ioctl = count(Metric::Messages).zip(count(Metric::Lines));
        let rate = |count| rate(count, seconds);
        let vcpus = match vm.vcpus.len() {
            0 => "-".to_owned(),
            vcpus => vcpus.to_string(),
        };
        let _ = writeln!(
            out,
            "{:>7} {:<10} {:>4} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7} {:>5} {:>4}",
            vm.pid,
            shortened(&name(vm), 10),
            vcpus,
            core(vm.cpu, seconds),
            rate(exits),
            rate(count(Metric::ToVmm)),
            rate(count(Metric::Rings)),
            rate(count(Metric::Irqfds)),
            rate(by_ioctl.map(|(messages, lines)| messages + lines)),
            rate(count(Metric::Eois)),
            vm.pv_eoi_share()
                .map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
        );
    }
    out
}

fn address_table(vms: &[Vm], seconds: f64) -> String {
    let mut out = String::new();
    for vm in vms {
        for address in vm.addresses.iter().take(ADDRESSES) {
            let row = format!(
                "{:>7} {:<23} {:<8} {:>7} {:>7}{} {}",
                vm.pid,
                place(address),
                accesses(address),
                rate(Some(address.to_vmm), seconds),
                rate(Some(address.rings), seconds),
                optional::cells(vm, address, seconds),
                what(address)
            );
            out += row.trim_end();
            out.push('\n');
        }
        let rest = vm.addresses.iter().skip(ADDRESSES);
        let sum = |count: fn(&Address) -> u64| Some(rest.clone().map(count).sum());
        if vm.addresses.len() > ADDRESSES {
            let _ = writeln!(
                out,
                "{:>7} {:<23} {:<8} {:>7} {:>7}",
                vm.pid,
                format!("{} more", vm.addresses.len() - ADDRESSES),
                "",
                rate(sum(|address| address.to_vmm), seconds),
                rate(sum(|address| address.rings), seconds)
            );
        }
        for (reason, count) in &vm.reasons {
            let count = rate(Some(*count), seconds);
            let none = rate(Some(0), seconds);
            let _ = writeln!(
                out,
                "{:>7} {:<23} {:<8} {count:>7} {none:>7}",
                vm.pid,
                shortened(reason, 23),
                ""
            );
        }
    }
    if out.is_empty() {
        return out;
    }
    let titles = format!(
        "\n{:>7} {:<23} {:<8} {:>7} {:>7}{} {}\n",
        "PID",
        "ADDRESS OR REASON",
        "ACCESS",
        "VMM/s",
        "RINGS/s",
        optional::titles(&vms[0]),
        "WHAT"
    );
    titles + &out
}

fn irqfd_table(vms: &[Vm], seconds: f64) -> String {
    let mut out = String::new();
    for vm in vms {
        for irqfd in &vm.irqfds {
            let _ = writeln!(
                out,
                "{:>7} {:>5} {:>7} {:>8} {}",
                vm.pid,
                irqfd.gsi,
                rate(Some(irqfd.count), seconds),
                rate(Some(irqfd.by_worker), seconds),
                signaller(irqfd)
            );
        }
    }
    if out.is_empty() {
        return out;
    }
    let titles = format!(
        "\n{:>7} {:>5} {:>7} {:>8} {}\n",
        "PID", "GSI", "IRQFD/s", "WORKER/s", "FIRST SIGNALLED BY"
    );
    titles + &out
}

/// The VMM and the VM's name; with several VMs in a process the descriptors tell them apart.
fn name(vm: &Vm) -> String {
    let mut name = vm.vmm.clone().unwrap_or_default();
    if let Some(own) = &vm.name {
        let _ = write!(name, ":{own}");
    }
    if vm.has_ended {
        name.insert_str(0, "(ended) ");
    }
    name
}

fn place(address: &Address) -> String {
    let space = match address.space {
        Space::Port => "port".to_owned(),
        Space::Mmio => "mmio".to_owned(),
        Space::Msr => "msr".to_owned(),
        Space::Bus(bus) => format!("bus{bus}"),
    };
    format!("{space} {:#x}", address.address)
}

/// `w2` is a write of two bytes; without a number the size is not known.
fn accesses(address: &Address) -> String {
    let each = address.accesses.iter().map(|(is_write, size)| {
        let direction = if *is_write { "w" } else { "r" };
        match size {
            0 => direction.to_owned(),
            size => format!("{direction}{size}"),
        }
    });
    each.collect::<Vec<_>>().join(",")
}

fn what(address: &Address) -> String {
    let mut parts = Vec::new();
    if let Some(name) = &address.name {
        parts.push(match name.source {
            NameSource::Table => name.text.clone(),
            NameSource::Guess => format!("{}?", name.text),
        });
    }
    parts.extend(address.eventfds.iter().map(|eventfd| match eventfd.fd {
        Some(fd) => format!("fd {fd}"),
        None => format!("eventfd {}, not open in the VMM", eventfd.id),
    }));
    parts.join(", ")
}

fn signaller(irqfd: &Irqfd) -> String {
    match irqfd.first_signaller {
        None => "-".to_owned(),
        Some(thread) => {
            let name = process::name_of_thread("/proc".as_ref(), thread);
            format!(
                "{} ({thread})",
                name.as_deref().unwrap_or("a thread that has ended")
            )
        }
    }
}

fn core(ticks: Option<u64>, seconds: f64) -> String {
    let share = |ticks| {
        if seconds > 0.0 {
            cpu_seconds(ticks) / seconds
        } else {
            0.0
        }
    };
    ticks.map_or("-".to_owned(), |ticks| format!("{:.2}", share(ticks)))
}

pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it is shown with four digits")]
    let count = count as f64;
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// A count for each second in six letters at most; `-` if it is not known.
pub(super) fn rate(count: Option<u64>, seconds: f64) -> String {
    let Some(count) = count else {
        return "-".to_owned();
    };
    let rate = per_second(count, seconds);
    match rate {
        0.0..0.05 if count > 0 => "<0.1".to_owned(),
        0.05..9.95 if count > 0 => format!("{rate:.1}"),
        0.0..9_999.5 => format!("{rate:.0}"),
        0.0..99_950.0 => format!("{:.1}k", rate / 1e3),
        0.0..9_999_500.0 => format!("{:.0}k", rate / 1e3),
        _ => format!("{:.1}M", rate / 1e6),
    }
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    kept + "…"
}

#[cfg(test)]
#[path = "text_test.rs"]
mod tests;
