use super::*;

const TEXT: &str = r#"
# Ours.
kernels = ["debian:6.12"]

[vmm.mine] # the one that we ship
command = "mine --kernel {image}"
"#;

#[test]
fn a_new_plan_has_at_most_ten_lines_and_is_read_again() {
    let mine = PlannedVmm {
        command: Some("mine '{image}' \"a\\b\"\u{7f}".to_owned()),
        with: vec!["/a b".to_owned()],
    };
    let kernels = vec!["debian:6.1".to_owned(), "debian:6.12".to_owned()];
    let plan = GatePlan {
        kernels,
        boots: 7,
        rows: vec!["cpuid".to_owned(), "hlt-wake".to_owned()],
        virtio: vec!["rng".to_owned()],
        linux: true,
        vmm: [("mine.2".to_owned(), mine)].into(),
    };
    let text = plan.text().unwrap();
    assert_eq!(GatePlan::parse(&text).unwrap(), plan);
    assert!(text.lines().count() <= 10, "{text}");
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
