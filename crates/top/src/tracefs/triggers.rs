//! The triggers of each metric, and what their histograms say.
//!
//! Each histogram is keyed by the thread, which is a vCPU's for these events. KVM's tracepoint of exits to the VMM has no address,
//! and those of accesses do not say who answers. So two events are joined: an access leaves its address in a variable of its
//! thread, and an exit to the VMM that follows makes a synthetic event of it. Each event of an access replaces the address of the
//! one before, and each exit takes it away, so an exit gets the address of its own access or none.

use std::collections::{BTreeSet, HashMap};

use super::TracefsError;
use super::hist::Hist;
use super::instance::Instance;
use crate::bpf::{Isa, Kind, Metric};
use crate::names::{EXIT_IO, EXIT_MMIO};

/// How many threads have a place in a histogram, and how many threads and addresses.
const THREADS: u32 = 1 << 12;
const ADDRESSES: u32 = 1 << 14;

const USERSPACE_EXIT: &str = "kvm/kvm_userspace_exit";
const ACCESS: &str = "kvm/kvm_mmio";
const EXIT: &str = "kvm/kvm_exit";
const EOI: &str = "kvm/kvm_eoi";
const PV_EOI: &str = "kvm/kvm_pv_eoi";
/// The synthetic events of exits for MMIO and for ports.
const MMIO: &str = "mmio";
const PORT: &str = "port";
/// In `kvm_mmio`: a read that is not answered yet, one that is, and a write.
const READ: u64 = 0;
const WAS_READ: u64 = 1;
const WRITE: u64 = 2;

/// Something that a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadEvent {
    pub(super) thread: u32,
    /// The vCPU's number, if the event has it.
    pub(super) vcpu: Option<u16>,
    pub(super) kind: Kind,
    pub(super) address: u64,
    pub(super) is_write: bool,
    pub(super) size: u8,
}

/// What was counted, and how many events were not.
#[derive(Clone, Debug, Default)]
pub(super) struct Traced {
    pub(super) counts: HashMap<ThreadEvent, u64>,
    pub(super) lost: u64,
}

/// The triggers of an instance for this CPU.
#[derive(Debug)]
pub(super) struct Triggers {
    pub(super) instance: Instance,
    /// `None` where exits do not tell ports.
    pub(super) isa: Option<Isa>,
    /// How often triggers of threads were added. Names of variables have the number.
    added: usize,
}

impl Triggers {
    pub(super) const fn new(instance: Instance, isa: Option<Isa>) -> Self {
        Self {
            instance,
            isa,
            added: 0,
        }
    }

    /// Adds those of a metric that do not depend on threads.
    pub(super) fn prepare(&self, metric: Metric) -> Result<(), TracefsError> {
        if metric != Metric::ToVmm {
            return Ok(());
        }
        let add = |what: &str, trigger: &str| {
            let event = format!("synthetic/{}", self.instance.synthetic(what));
            self.instance.add(&event, trigger)
        };
        self.instance.define(MMIO, "u64 gpa; u32 len; u32 type")?;
        for access in [READ, WRITE] {
            let trigger =
                format!("hist:keys=common_pid,gpa,len:size={ADDRESSES} if type == {access}");
            add(MMIO, &trigger)?;
        }
        if self.isa.is_some() {
            self.instance.define(PORT, "u64 info")?;
            add(PORT, &format!("hist:keys=common_pid,info:size={ADDRESSES}"))?;
        }
        Ok(())
    }

    /// Adds those of a metric for some threads, or for all.
    pub(super) fn add(
        &mut self,
        metric: Metric,
        threads: Option<&BTreeSet<u32>>,
    ) -> Result<(), TracefsError> {
        let only = |condition: &str| match threads {
            Some(threads) => format!("({condition}) && ({})", ranges(threads)),
            None => condition.to_owned(),
        };
        let all = threads.map_or(String::new(), |threads| format!(" if {}", ranges(threads)));
        let add = |event, trigger: &str| self.instance.add(event, trigger);
        match metric {
            Metric::ToVmm => {
                let n = self.added;
                let access = only(&format!("type != {WAS_READ}"));
                let variables = format!("a{n}=gpa,l{n}=len,t{n}=type");
                add(
                    ACCESS,
                    &format!("hist:keys=common_pid:{variables}:size={THREADS} if {access}"),
                )?;
                let mmio = self.instance.synthetic(MMIO);
                let join = format!("onmatch(kvm.kvm_mmio).trace({mmio},$a{n},$l{n},$t{n})");
                self.add_join(
                    &join,
                    &only(&format!("reason == {EXIT_MMIO} && errno >= 0")),
                )?;
                let mut others = format!("reason != {EXIT_MMIO}");
                if let Some(isa) = self.isa {
                    let io = only(&format!("exit_reason == {}", reason_of_io(isa)));
                    add(
                        EXIT,
                        &format!("hist:keys=common_pid:i{n}=info1:size={THREADS} if {io}"),
                    )?;
                    let port = self.instance.synthetic(PORT);
                    let join = format!("onmatch(kvm.kvm_exit).trace({port},$i{n})");
                    self.add_join(&join, &only(&format!("reason == {EXIT_IO} && errno >= 0")))?;
                    others = format!("({others} && reason != {EXIT_IO})");
                }
                let others = only(&format!("{others} || errno < 0"));
                add(
                    USERSPACE_EXIT,
                    &format!("hist:keys=common_pid,reason,errno:size={THREADS} if {others}"),
                )?;
            }
            Metric::Eois => add(EOI, &format!("hist:keys=common_pid:size={THREADS}{all}"))?,
            Metric::PvEois => add(PV_EOI, &format!("hist:keys=common_pid:size={THREADS}{all}"))?,
            Metric::Exits => add(
                EXIT,
                &format!("hist:keys=common_pid,exit_reason,vcpu_id:size={ADDRESSES}{all}"),
            )?,
            _ => return Err(TracefsError::Metric(metric)),
        }
        self.added += 1;
        Ok(())
    }

    fn add_join(&self, join: &str, condition: &str) -> Result<(), TracefsError> {
        let trigger = format!("hist:keys=common_pid:size={THREADS}:{join} if {condition}");
        self.instance.add(USERSPACE_EXIT, &trigger)
    }

    /// Reads all histograms.
    pub(super) fn read(&self) -> Result<Traced, TracefsError> {
        let mut traced = Traced::default();
        // Exits before their addresses: so what has no address is never too much.
        let [mmio, port] =
            [MMIO, PORT].map(|what| format!("synthetic/{}", self.instance.synthetic(what)));
        for event in [USERSPACE_EXIT, ACCESS, EXIT, EOI, PV_EOI, &*mmio, &*port] {
            for hist in Hist::all(&self.instance.hist(event)?) {
                traced.lost += hist.dropped;
                for (keys, count) in &hist.entries {
                    let what = self.event(event, &hist, |name| {
                        let key = keys.iter().find(|(key, _)| key == name);
                        key.map(|(_, value)| *value).unwrap_or_default()
                    });
                    if let Some(what) = what {
                        *traced.counts.entry(what).or_default() += count;
                    }
                }
            }
        }
        let with_address: Vec<(ThreadEvent, u64)> = traced
            .counts
            .iter()
            .filter(|(event, _)| matches!(event.kind, Kind::Mmio | Kind::Port))
            .map(|(event, count)| (*event, *count))
            .collect();
        for (event, count) in with_address {
            let all = ThreadEvent::without_address(event.thread, event.kind);
            if let Some(all) = traced.counts.get_mut(&all) {
                *all = all.saturating_sub(count);
            }
        }
        Ok(traced)
    }

    /// What an entry of a histogram counts; `None` if it only keeps variables.
    fn event(&self, event: &str, hist: &Hist, key: impl Fn(&str) -> u64) -> Option<ThreadEvent> {
        let thread = u32::try_from(key("common_pid")).ok()?;
        let plain = |kind, address| ThreadEvent {
            thread,
            vcpu: None,
            kind,
            address,
            is_write: false,
            size: 0,
        };
        Some(match event {
            USERSPACE_EXIT if hist.has_key("reason") => match key("errno").cast_signed() {
                // As 32 bits.
                error @ ..0 => plain(Kind::Failed, error.cast_unsigned() & u64::from(u32::MAX)),
                _ => plain(Kind::Other, key("reason")),
            },
            USERSPACE_EXIT if hist.trigger.contains("(kvm.kvm_mmio)") => {
                ThreadEvent::without_address(thread, Kind::Mmio)
            }
            USERSPACE_EXIT => ThreadEvent::without_address(thread, Kind::Port),
            ACCESS => return None,
            EXIT if hist.has_key("exit_reason") => ThreadEvent {
                vcpu: u16::try_from(key("vcpu_id")).ok(),
                ..plain(Kind::Exit, key("exit_reason"))
            },
            EXIT => return None,
            EOI => plain(Kind::Eoi, 0),
            PV_EOI => plain(Kind::PvEoi, 0),
            _ if hist.has_key("gpa") => ThreadEvent {
                is_write: hist.trigger.contains(&format!("type == {WRITE}")),
                size: u8::try_from(key("len")).unwrap_or_default(),
                ..plain(Kind::Mmio, key("gpa"))
            },
            _ => {
                let (port, is_write, size) = port(self.isa?, key("info"));
                ThreadEvent {
                    is_write,
                    size,
                    ..plain(Kind::Port, port)
                }
            }
        })
    }
}

impl ThreadEvent {
    /// Whether it is what is left without an address.
    pub(super) fn is_rest(&self) -> bool {
        let reasons = [EXIT_IO, EXIT_MMIO].map(u64::from);
        self.kind == Kind::Other && reasons.contains(&self.address)
    }

    /// All exits to the VMM of a thread for this kind of access; after the subtraction of those with an address, the rest.
    fn without_address(thread: u32, kind: Kind) -> Self {
        Self {
            thread,
            vcpu: None,
            kind: Kind::Other,
            address: match kind {
                Kind::Mmio => EXIT_MMIO.into(),
                _ => EXIT_IO.into(),
            },
            is_write: false,
            size: 0,
        }
    }
}

/// The CPU's reason of an exit for a port.
const fn reason_of_io(isa: Isa) -> u32 {
    match isa {
        Isa::Svm => 0x7b,
        Isa::Vmx => 30,
    }
}

/// The port, whether it is written, and the size of an access in an exit's first word.
fn port(isa: Isa, info: u64) -> (u64, bool, u8) {
    let is_read = match isa {
        Isa::Svm => info & 1,
        Isa::Vmx => info >> 3 & 1,
    };
    let size = match isa {
        // A bit for each size.
        Isa::Svm => info >> 4 & 7,
        Isa::Vmx => (info & 7) + 1,
    };
    let size = u8::try_from(size).unwrap_or_default();
    (info >> 16 & 0xffff, is_read == 0, size)
}

/// A condition for threads: vCPUs' threads often have successive numbers.
fn ranges(threads: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for thread in threads {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *thread => *last = *thread,
            _ => ranges.push((*thread, *thread)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => format!("common_pid == {first}"),
        false => format!("(common_pid >= {first} && common_pid <= {last})"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
#[path = "triggers_test.rs"]
mod tests;
