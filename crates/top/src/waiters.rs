//! What in the kernel waits for an eventfd, from the address of the waiting function: vhost, or an irqfd of a VM.
//!
//! The addresses are from `/proc/kallsyms`. Without CAP_SYSLOG it shows only zeros, and no waiter is known.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub(crate) const VHOST: &str = "vhost";
/// The functions that are known. A VMM's own threads wait with other functions.
const FUNCTIONS: [(&str, &str); 2] = [("vhost_poll_wakeup", VHOST), ("irqfd_wakeup", "irqfd")];

/// What waits for an eventfd in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// `vhost`, or `irqfd` if a signal raises an interrupt of a VM.
    pub name: &'static str,
    /// The vhost thread in the VMM's process, if it has exactly one. Before Linux 6.4, vhost runs outside of the
    /// process.
    pub thread: Option<u32>,
}

/// The functions whose addresses were searched for.
#[derive(Debug, Default)]
pub(crate) struct Functions(HashMap<u64, Option<&'static str>>);

impl Functions {
    /// Finds functions by address. `kallsyms` is read only if an address is new, because it has many symbols.
    pub(crate) fn find(&mut self, proc: &Path, addresses: &BTreeSet<u64>) {
        let is_known = |address: &u64| *address == 0 || self.0.contains_key(address);
        if addresses.iter().all(is_known) {
            return;
        }
        let Ok(symbols) = File::open(proc.join("kallsyms")) else {
            return;
        };
        let found: HashMap<u64, &str> = BufReader::new(symbols)
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| function(&line))
            .collect();
        for address in addresses {
            self.0.insert(*address, found.get(address).copied());
        }
    }

    /// The name of the function at an address.
    pub(crate) fn name(&self, address: u64) -> Option<&'static str> {
        self.0.get(&address).copied().flatten()
    }
}

/// Parses a line such as `ffffffffc0a01230 t vhost_poll_wakeup  [vhost]`; returns the address and the name if known.
fn function(line: &str) -> Option<(u64, &'static str)> {
    let mut words = line.split_ascii_whitespace();
    let address = words.next()?;
    let symbol = words.nth(1)?;
    let (_, name) = FUNCTIONS.iter().find(|(known, _)| *known == symbol)?;
    Some((u64::from_str_radix(address, 16).ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_addresses_and_looked_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let symbols = folder.path().join("kallsyms");
        std::fs::write(
            &symbols,
            "ffffffff81000000 T ep_poll_callback\n\
             ffffffffc0a01230 t vhost_poll_wakeup\t[vhost]\n\
             ffffffffc0b01230 t irqfd_wakeup\t[kvm]\n",
        )
        .unwrap();
        let mut functions = Functions::default();
        let all = [
            0xffff_ffff_8100_0000,
            0xffff_ffff_c0a0_1230,
            0xffff_ffff_c0b0_1230,
        ];
        functions.find(folder.path(), &all.into());
        let expected = [None, Some("vhost"), Some("irqfd")];
        assert_eq!(all.map(|address| functions.name(address)), expected);
        std::fs::write(&symbols, "").unwrap();
        functions.find(folder.path(), &all.into());
        assert_eq!(all.map(|address| functions.name(address)), expected);
    }

    #[test]
    fn a_user_who_sees_no_addresses_knows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let line = "0000000000000000 t vhost_poll_wakeup\t[vhost]\n";
        std::fs::write(folder.path().join("kallsyms"), line).unwrap();
        let mut functions = Functions::default();
        functions.find(folder.path(), &BTreeSet::from([0xffff_ffff_c0a0_1230]));
        assert_eq!(functions.name(0xffff_ffff_c0a0_1230), None);
        functions.find("/nonexistent".as_ref(), &BTreeSet::from([1]));
        assert_eq!(functions.name(1), None);
    }
}
