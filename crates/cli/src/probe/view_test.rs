use super::*;
use vmbell_report::{Screen, terminal};

/// A host with many findings, and backends that lack something.
fn offer(findings: usize) -> Offer {
    let no = || Support::No("old kernel".to_owned());
    let capabilities = vec![
        (Capability::Run, Support::Yes),
        (Capability::CoalescedMmio, no()),
    ];
    Offer {
        host: Host {
            cpus: 2,
            mitigations: [
                ("spectre_v1", "Mitigation: barriers"),
                ("mds", "Vulnerable"),
            ]
            .map(|(name, state)| (name.to_owned(), state.to_owned()))
            .into(),
            ..Host::default()
        },
        clock: Ok((2.5e9, true)),
        features: vec![("/dev/kvm", Support::Yes), ("iommufd", no())],
        settings: vec![("open files", "20000".to_owned())],
        backends: vec![
            ("kvm", capabilities),
            ("usermode", vec![(Capability::Run, no())]),
        ],
        advice: (0..findings)
            .map(|nth| Finding::untold(&format!("fact {nth}"), "/file", "no"))
            .collect(),
    }
}

fn text(offer: &Offer, is_verbose: bool) -> String {
    terminal(&blocks(offer, is_verbose), Screen::default())
}

#[test]
fn the_short_form_has_at_most_forty_lines_and_names_the_long_one() {
    let text = text(&offer(100), false);
    assert!(text.lines().count() <= 40, "{text}");
    for part in [
        "1 mitigation in use, 1 vulnerable",
        "\nnot usable   iommufd\n",
        "\nkvm       yes, with 1 of 2 capabilities\n",
        "\nusermode  no: old kernel\n",
        "fact 7",
        "vmbell probe -v shows everything, including 92 other findings\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_long_form_has_everything() {
    let text = text(&offer(100), true);
    for part in [
        "microcode",
        "\nmds ",
        "\nopen files  20000\n",
        "coalesced-mmio  no: old kernel\n",
        "fact 99",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
