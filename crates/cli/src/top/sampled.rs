//! The table of samples: for which accesses vCPUs were in their VMM, when nothing is counted by address.

use std::fmt::Write;

use super::text::{accesses, place, what};
use vmbell_report::shortened;
use vmbell_top::model::Vm;
use vmbell_top::rates::per_second;

/// The places of each VM's vCPUs in the VMM, at most this number of addresses of each.
pub(super) fn table(vms: &[Vm], most: usize) -> String {
    let mut out = String::new();
    for vm in vms {
        let Some(sampled) = &vm.sampled else {
            continue;
        };
        let mut row = |place: &str, accesses: &str, count: u64, what: &str| {
            let share = share(count, sampled.samples);
            let row = format!("{:>7} {place:<23} {accesses:<8} {share:>7} {what}", vm.pid);
            let _ = writeln!(out, "{}", row.trim_end());
        };
        for address in sampled.addresses.iter().take(most) {
            let (place, accesses) = (place(address), accesses(address));
            row(&place, &accesses, address.to_vmm, &what(address));
        }
        let rest = sampled.addresses.iter().skip(most);
        if rest.len() > 0 {
            let place = format!("{} more", rest.len());
            row(&place, "", rest.map(|address| address.to_vmm).sum(), "");
        }
        for (reason, count) in &sampled.reasons {
            row(&shortened(reason, 23), "", *count, "");
        }
    }
    if out.is_empty() {
        return out;
    }
    let titles = format!(
        "\n{:>7} {:<23} {:<8} {:>7} {}\n",
        "PID", "ADDRESS OR REASON", "ACCESS", "IN VMM", "WHAT"
    );
    titles + &out
}

fn share(count: u64, samples: u64) -> String {
    let share = per_second(count, 1.0) / per_second(samples, 1.0);
    format!("~{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use vmbell_top::model::{Address, Space};
    use vmbell_top::sampled::Sampled;

    #[test]
    fn shares_of_samples_are_marked_and_addresses_beyond_the_limit_are_summed() {
        let address = |address, to_vmm| Address {
            space: Space::Port,
            address,
            to_vmm,
            vmm_time: 0,
            rings: 0,
            by_kvm: 0,
            accesses: BTreeSet::from([(true, 1)]),
            eventfds: Vec::new(),
            name: None,
        };
        let sampled = Sampled {
            samples: 1000,
            addresses: vec![address(0xb07, 299), address(0xb08, 20), address(0xb09, 5)],
            reasons: BTreeMap::from([("hlt".to_owned(), 1)]),
        };
        let vm = Vm {
            pid: 132,
            sampled: Some(sampled),
            ..Vm::default()
        };
        let expected = "
    PID ADDRESS OR REASON       ACCESS    IN VMM WHAT
    132 port 0xb07              w1        ~29.9%
    132 2 more                             ~2.5%
    132 hlt                                ~0.1%
";
        assert_eq!(table(&[vm], 1), expected);
        assert_eq!(table(&[Vm::default()], 1), "");
    }
}
