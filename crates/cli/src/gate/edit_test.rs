use super::*;

const PLAN: &str = r#"
# Ours.
format = 1
kernels = ["debian:6.12"]

[vmm.mine] # the one that we ship
command = "mine --kernel {image}"

# The end.
"#;

const BOTH: &str = r#"[measured."debian:6.12".mine]
version = 'mine "1"'
kernel = "Linux 6.12.43"

[measured."debian:6.12".mine.rows]
cpuid = { exits = 1, instructions = 2991, reasons = { io = 1.5 }, addresses = { "port 0x3f8" = 7 } }
virtio-blk-eoi = { exits = [0.95, 1, 1], instructions = [1, 2.25, 3], reasons = { io = 1.5 }, addresses = { "port 0x3f8" = 7 } }
"#;

type ByKernel = BTreeMap<String, BTreeMap<String, Measured>>;

fn figures(instructions: [f64; 3], exits: [f64; 3]) -> Figures {
    Figures {
        instructions: instructions.into(),
        exits: Some(exits.into()),
        to_vmm: None,
        reasons: [("io".to_owned(), 1.5)].into(),
        addresses: [("port 0x3f8".to_owned(), 7.0)].into(),
    }
}

fn of(kernel: &str, vmm: &str, rows: &[(&str, Figures)]) -> ByKernel {
    let rows = rows.iter().cloned();
    let measured = Measured {
        version: Some("mine \"1\"".to_owned()),
        kernel: Some("Linux 6.12.43".to_owned()),
        rows: rows
            .map(|(row, figures)| (row.to_owned(), figures))
            .collect(),
        ..Measured::default()
    };
    [(kernel.to_owned(), [(vmm.to_owned(), measured)].into())].into()
}

fn both() -> ByKernel {
    let cpuid = figures([2991.0; 3], [1.0; 3]);
    let eoi = figures([1.0, 2.25, 3.0], [0.95, 1.0, 1.0]);
    of(
        "debian:6.12",
        "mine",
        &[("cpuid", cpuid), ("virtio-blk-eoi", eoi)],
    )
}

fn read(text: &str) -> ByKernel {
    #[derive(serde::Deserialize)]
    struct Document {
        measured: ByKernel,
    }
    let document: Document = toml_edit::de::from_str(text).unwrap();
    document.measured
}

#[test]
fn figures_follow_what_people_wrote_and_are_the_same_when_written_again() {
    let text = with_figures(PLAN, &both()).unwrap();
    assert_eq!(text, format!("{PLAN}\n{COMMENT}[measured]\n\n{BOTH}"));
    assert_eq!(with_figures(&text, &both()).unwrap(), text);
    assert_eq!(read(&text), both());
}

#[test]
fn a_reworded_comment_does_not_write_figures_twice() {
    for comment in ["", "# Budget figures, sorted by our formatter\n"] {
        let text = with_figures(PLAN, &both()).unwrap();
        let reworded = text.replace(COMMENT, comment);
        assert_eq!(with_figures(&reworded, &both()).unwrap(), reworded);
    }
}

#[test]
fn what_people_wrote_below_and_between_the_figures_is_kept() {
    let text = with_figures(PLAN, &both()).unwrap();
    let text = text.replace("\ncpuid", "\n# One exit: there is no way around it.\ncpuid");
    let text = text.replace("7 } }\nvirtio", "7 } } # since May\nvirtio");
    let text = format!("{text}\n[vmm.other]\ncommand = \"other\"\n# The very end.\n");
    let mut grown = both();
    let mine = grown.get_mut("debian:6.12").unwrap().get_mut("mine");
    let rows = &mut mine.unwrap().rows;
    rows.insert("cpuid".to_owned(), figures([3000.0; 3], [2.0; 3]));
    rows.insert("hlt".to_owned(), figures([1.0; 3], [1.0; 3]));
    let written = with_figures(&text, &grown).unwrap();
    let hlt = "hlt = { exits = 1, instructions = 1, reasons = { io = 1.5 }, addresses = { \"port 0x3f8\" = 7 } }\n";
    let expected = text
        .replace(
            "{ exits = 1, instructions = 2991",
            "{ exits = 2, instructions = 3000",
        )
        .replace("\n[vmm.other]", &format!("{hlt}\n[vmm.other]"));
    assert_eq!(written, expected);
    assert_eq!(read(&written), grown);
}

#[test]
fn figures_of_a_row_a_vmm_or_a_kernel_that_is_no_longer_held_go() {
    let text = with_figures(PLAN, &both()).unwrap();
    for other in [
        of(
            "debian:6.12",
            "mine",
            &[("cpuid", figures([1.0; 3], [1.0; 3]))],
        ),
        of(
            "debian:6.12",
            "mine.2",
            &[("cpuid", figures([1.0; 3], [1.0; 3]))],
        ),
        of(
            "debian:6.1",
            "mine",
            &[("cpuid", figures([1.0; 3], [1.0; 3]))],
        ),
    ] {
        let written = with_figures(&text, &other).unwrap();
        assert!(written.starts_with(PLAN), "{written}");
        assert_eq!(read(&written), other);
        assert_eq!(
            with_figures(&written, &both())
                .map(|text| read(&text))
                .unwrap(),
            both()
        );
    }
}

#[test]
fn figures_in_another_notation_are_replaced_too() {
    for notation in [
        "measured.\"debian:6.12\".mine.rows.cpuid = { instructions = 7 }\n",
        "measured = { \"debian:6.12\" = { mine = { rows = { cpuid = { instructions = 7 } } } } }\n",
    ] {
        let text = format!("{notation}{PLAN}");
        assert_eq!(read(&with_figures(&text, &both()).unwrap()), both());
    }
}
