use super::args::tests::args;
use super::plan::tests::plan;
use super::*;

const REPORT: &str = include_str!("../../../report/tests/data/report.json");
fn machine() -> GateMachine {
    GateMachine {
        kernel: "debian:6.12".to_owned(),
        cpu: None,
    }
}

/// A baseline that this program can hold VMMs to.
pub(in crate::gate) fn counted() -> Report {
    let mut report = vmbell_report::parse(REPORT).unwrap();
    report.timing = vmbell_report::Timing::Instructions;
    report.host.arch = std::env::consts::ARCH.to_owned();
    report
}

#[test]
fn baselines_are_read_unless_there_are_none_yet() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.toml");
    let baseline = baseline::path(&file, &machine());
    let counted = json_by_row(&counted());
    let plan = plan("kernels = [\"debian:6.12\"]\n[vmm.usermode]\n");
    let absent = "there are no figures on debian:6.12";
    for (text, option, expected) in [
        (None, "--init", Ok(0)),
        (None, "--accept", Ok(0)),
        (None, "", Err(absent)),
        (Some("{}"), "--init", Ok(0)),
        (Some("{}"), "--accept", Ok(0)),
        (Some("{}"), "", Err("cannot compare the report")),
        (Some(REPORT), "--accept", Ok(1)),
        (
            Some(REPORT),
            "",
            Err("unit: native before, instructions now"),
        ),
        (Some(&counted), "--init", Ok(0)),
        (Some(&counted), "--accept", Ok(1)),
        (Some(&counted), "", Ok(1)),
    ] {
        if let Some(text) = text {
            fs::write(&baseline, text).unwrap();
        }
        let args = args(&format!("{option} --file {}", file.display())).unwrap();
        let found = baselines(&plan, &[machine()], &args);
        match (found, expected) {
            (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{option}"),
            (Err(error), Err(why)) => {
                assert!(
                    error.is::<Usage>() && error.to_string().contains(why),
                    "{error}"
                );
            }
            (found, expected) => panic!("{option}: {expected:?}, but {found:?}"),
        }
    }
}

#[test]
fn a_baseline_of_another_kernel_is_refused_and_replaced_if_new_figures_are_taken() {
    let before = counted();
    let mut now = before.clone();
    now.host.kernel = "Linux 6.19.0".to_owned();
    let of = |report: &Report| BTreeMap::from([(machine(), report.clone())]);
    let boots = BTreeMap::from([(machine(), vec![now.clone()])]);
    let told = "cannot hold VMMs to vmbell-gate.debian_6.12.json: ";
    let different = "kernel: Linux 6.18.0 before, Linux 6.19.0 now";
    for (option, advice) in [
        ("", "; `vmbell gate --accept` takes new figures"),
        ("--accept", ""),
    ] {
        let args = args(option).unwrap();
        let error = held(
            &mut GateVerdict::default(),
            &args,
            &of(&before),
            (&machine(), &now),
        );
        let error = error.unwrap_err();
        assert!(error.is::<Usage>());
        let text = error.to_string();
        assert!(text.starts_with(told) && text.contains(different), "{text}");
        assert_eq!(text.ends_with(different), advice.is_empty(), "{text}");
        assert!(text.ends_with(advice), "{text}");
        let verdict = verdict(&args, &of(&before), &boots, &of(&now));
        assert_eq!(verdict.is_ok(), option == "--accept");
        let new = verdict.map(|verdict| verdict.new.len()).unwrap_or_default();
        let measured = now.results.iter().filter(|row| row.is_ok()).count();
        assert_eq!(new, if option == "--accept" { measured } else { 0 });
    }
}
