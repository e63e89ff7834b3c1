use super::*;
use crate::gate::args::tests::args;

const TEXT: &str = r#"
# Ours.
kernels = ["debian:6.12"]

[vmm.mine] # the one that we ship
command = "mine --kernel {image}"
"#;

/// A plan with this text.
pub(in crate::gate) fn plan(text: &str) -> GatePlan {
    GatePlan::parse(text).unwrap()
}

#[test]
fn a_new_plan_has_at_most_eleven_lines_and_is_read_again() {
    let mine = PlannedVmm {
        command: Some("mine '{image}' \"a\\b\"\u{7f}".to_owned()),
        with: vec!["/a b".to_owned()],
    };
    let kernels = vec!["debian:6.1".to_owned(), "debian:6.12".to_owned()];
    let plan = GatePlan {
        kernels,
        cpus: vec!["amd".to_owned(), "intel".to_owned()],
        boots: 7,
        rows: vec!["cpuid".to_owned(), "hlt-wake".to_owned()],
        virtio: vec!["rng".to_owned()],
        linux: true,
        vmm: [("mine.2".to_owned(), mine)].into(),
    };
    let text = plan.text().unwrap();
    assert_eq!(GatePlan::parse(&text).unwrap(), plan);
    assert!(text.lines().count() <= 11, "{text}");
}

#[test]
fn a_new_plan_has_a_table_for_each_vmm() {
    let text = "kernels = [\"debian:6.12\"]\nboots = 5\n\n[vmm.alioth]\n\n[vmm.vmbell]\n";
    let plan = GatePlan::parse(text).unwrap();
    assert_eq!(plan.text().unwrap(), format!("{TITLE}{text}"));
}

#[test]
fn a_mistake_is_told_with_its_key() {
    for (wrong, told) in [
        (TEXT.replace("kernels", "kernel"), "unknown field `kernel`"),
        (TEXT.replace("command = ", "command = 7 #"), "command"),
        (
            TEXT.replace("[\"debian:6.12\"]", "[]"),
            "it names no kernel",
        ),
        (TEXT.replace("[vmm.mine]", "[vmm]"), "command"),
        (
            format!("boots = 0{TEXT}"),
            "boots: 0 is not a number from 1 to 1000",
        ),
        (format!("boots = 1001{TEXT}"), "boots: 1001 is not"),
        (format!("format = 1{TEXT}"), "unknown field `format`"),
        (format!("{TEXT}[measured]\n"), "unknown field `measured`"),
    ] {
        let error = GatePlan::parse(&wrong).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn a_new_plan_has_what_the_arguments_name() {
    let described = |words: &str| {
        let args = args(&format!("--init --file /absent/gate.toml {words}")).unwrap();
        GatePlan::described(&args).unwrap().text().unwrap()
    };
    for (words, text) in [
        (
            "",
            "kernels = [\"debian:6.12\"]\nboots = 5\n\n[vmm.vmbell]\n",
        ),
        (
            "alioth --boots 3 --linux",
            "kernels = [\"debian:6.12\"]\nboots = 3\nlinux = true\n\n[vmm.alioth]\n",
        ),
        (
            "vmbell --vmm vmbell=target/vmbell --vmm mine=my-vmm --kernel debian:6.1 --kernel debian:6.12",
            "kernels = [\"debian:6.1\", \"debian:6.12\"]\nboots = 5\n\n[vmm.mine]\ncommand = \"my-vmm\"\n\n\
             [vmm.vmbell]\ncommand = \"target/vmbell\"\n",
        ),
        (
            "--rows cpuid,hlt-wake --virtio rng,blk",
            "kernels = [\"debian:6.12\"]\nboots = 5\nrows = [\"cpuid\", \"hlt-wake\"]\nvirtio = [\"rng\", \"blk\"]\n\n\
             [vmm.vmbell]\n",
        ),
    ] {
        assert_eq!(described(words), format!("{TITLE}{text}"), "{words}");
    }
}

#[test]
fn the_kernels_are_those_of_the_plan_or_some_of_them() {
    let text = TEXT.replace("[\"debian:6.12\"]", "[\"debian:6.1\", \"debian:6.12\"]");
    let plan = plan(&text);
    let twice = "the kernel debian:6.1 is named twice".to_owned();
    let absent = "--kernel: vmbell-gate.toml does not hold the kernel debian:6.6, only debian:6.1, debian:6.12, did you mean 'debian:6.1'?".to_owned();
    for (words, expected) in [
        ("", Ok(&["debian:6.1", "debian:6.12"][..])),
        ("--kernel debian:6.12", Ok(&["debian:6.12"])),
        (
            "--kernel debian:6.12 --kernel debian:6.1",
            Ok(&["debian:6.12", "debian:6.1"]),
        ),
        (
            "--init --kernel debian:6.12",
            Ok(&["debian:6.1", "debian:6.12"]),
        ),
        ("--kernel debian:6.1 --kernel debian:6.1", Err(twice)),
        ("--kernel debian:6.6", Err(absent)),
    ] {
        assert_eq!(machines(&plan, words), expected.map(names), "{words}");
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The machines on which these arguments measure a plan.
fn machines(plan: &GatePlan, words: &str) -> Result<Vec<String>, String> {
    let machines = plan.machines(&args(words).unwrap());
    let machines = machines.map_err(|error| error.to_string())?;
    Ok(machines.iter().map(GateMachine::to_string).collect())
}

#[test]
fn each_kernel_is_measured_on_each_cpu_of_the_plan_or_some_of_them() {
    let both = plan(&format!("cpus = [\"amd\", \"intel\"]\n{TEXT}"));
    let (amd, intel) = ("debian:6.12", "debian:6.12 on intel");
    assert_eq!(machines(&both, ""), Ok(names(&[amd, intel])));
    assert_eq!(machines(&both, "--cpu intel"), Ok(names(&[intel])));
    let absent = "--cpu: vmbell-gate.toml does not hold the CPU intel:haswell, only amd, intel";
    let error = machines(&both, "--cpu intel:haswell").unwrap_err();
    assert!(error.starts_with(absent), "{error}");
}

#[test]
fn a_plan_without_cpus_is_for_the_default_one() {
    for words in ["", "--cpu amd"] {
        let machines = machines(&plan(TEXT), words);
        assert_eq!(machines, Ok(names(&["debian:6.12"])), "{words}");
    }
    let other = "--cpu: vmbell-gate.toml does not hold the CPU intel, only amd";
    assert_eq!(machines(&plan(TEXT), "--cpu intel"), Err(other.to_owned()));
}

#[test]
fn both_names_of_a_cpu_are_one_machine() {
    let held = |cpus: &str| plan(&format!("cpus = [{cpus}]\n{TEXT}"));
    let intel = Ok(names(&["debian:6.12 on intel"]));
    assert_eq!(machines(&held("\"intel:skylake-x\""), ""), intel);
    let words = "--cpu intel:skylake-x";
    assert_eq!(machines(&held("\"intel\""), words), intel);
    assert_eq!(
        machines(&held("\"intel\", \"intel:skylake-x\""), ""),
        Err("the CPU intel is named twice".to_owned())
    );
}
