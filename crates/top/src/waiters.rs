//! What in the kernel waits for an eventfd, by the address of its function: vhost, or an irqfd of a VM.
//!
//! `/proc/kallsyms` has the addresses. It shows zeros to a user without CAP_SYSLOG; nothing is known then.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub(crate) const VHOST: &str = "vhost";
/// The functions that are known. A thread of a VMM waits by others.
const FUNCTIONS: [(&str, &str); 2] = [("vhost_poll_wakeup", VHOST), ("irqfd_wakeup", "irqfd")];

/// What waits for an eventfd in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// `vhost`, or `irqfd` if a signal is an interrupt of a VM.
    pub name: &'static str,
    /// The thread of vhost in the VMM's process, if it has exactly one. Linux before 6.4 has it outside of the process.
    pub thread: Option<u32>,
}

/// The functions whose addresses were looked for.
#[derive(Debug, Default)]
pub(crate) struct Functions(HashMap<u64, Option<&'static str>>);

impl Functions {
    /// Looks for these addresses. The kernel is asked only if one of them is new, because it has many symbols.
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

    /// The name for an address.
    pub(crate) fn name(&self, address: u64) -> Option<&'static str> {
        self.0.get(&address).copied().flatten()
    }
}

/// The address and the name of a known function, in a line such as `ffffffffc0a01230 t vhost_poll_wakeup  [vhost]`.
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
