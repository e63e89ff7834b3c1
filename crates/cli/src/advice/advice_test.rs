use super::*;
use vmbell_report::{Screen, terminal};

fn text(found: &[Finding]) -> String {
    terminal(&blocks(found), Screen::default())
}

fn known(host: &Host, backends: &[BackendProbe]) -> Vec<Finding> {
    facts(&KnownHost {
        host,
        invariant: Some(true),
        backends,
    })
}

#[test]
fn a_quiet_host_that_lacks_nothing_is_told_so() {
    let host = Host {
        cpus: 2,
        load: Some(0.1),
        ..Host::default()
    };
    let found = known(
        &host,
        &[("usermode", vec![(Capability::Run, Support::Yes)])],
    );
    assert_eq!(found, []);
    assert!(text(&found).contains("nothing was found that distorts or slows"));
}

#[test]
fn a_busy_host_is_told_in_the_words_of_the_warning() {
    let host = Host {
        cpus: 2,
        load: Some(3.0),
        ..Host::default()
    };
    let found = known(&host, &[]);
    assert_eq!(
        found[0].fact,
        Warning::Loaded { load: 3.0, cpus: 2 }.to_string()
    );
}

#[test]
fn what_a_backend_lacks_is_named() {
    let no = || Support::No("old kernel".to_owned());
    let backends = [(
        "kvm",
        vec![
            (Capability::Run, Support::Yes),
            (Capability::CoalescedMmio, no()),
        ],
    )];
    let found = known(&Host::default(), &backends);
    assert!(found[0].fact.starts_with("kvm lacks "), "{found:?}");
    // If a backend is missing, its section gives the one reason for all capabilities.
    let backends = [("kvm", vec![(Capability::Run, no())])];
    assert_eq!(known(&Host::default(), &backends), []);
}

#[test]
fn the_worst_comes_first_and_each_says_what_it_costs() {
    let found = [
        Finding::new(
            Severity::Distorts,
            ("a fact", "/file"),
            "an effect",
            "a remedy",
        )
        .costing("1 %".to_owned()),
        Finding::untold("there is more", "/other", "permission denied"),
    ];
    let text = text(&found);
    assert!(
        text.contains("distorts: a fact (/file)\n  an effect; cost: 1 %; to change it: a remedy\n"),
        "{text}"
    );
    assert!(
        text.contains("unknown: cannot tell whether there is more: permission denied (/other)"),
        "{text}"
    );
    assert!(Severity::Distorts < Severity::Slows && Severity::Slows < Severity::Note);
}
