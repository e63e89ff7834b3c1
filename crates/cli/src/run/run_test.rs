use super::ending::status;
use super::*;
use clap::Parser;

/// A command line of `vmbell run`, without the name.
#[derive(Debug, Parser)]
struct RunLine {
    #[command(flatten)]
    args: RunArgs,
}

fn args(words: &[&str]) -> RunArgs {
    RunLine::parse_from([&["run", "vmlinuz"], words].concat()).args
}

#[test]
fn exit_code_of_the_guest_is_doubled_plus_one_and_cut_to_8_bits() {
    assert_eq!(status(0), 1);
    assert_eq!(status(1), 3);
    assert_eq!(status(62), 125);
    assert_eq!(status(127), 255);
    assert_eq!(status(128), 1);
    assert_eq!(status(u32::MAX), 255);
}

#[test]
fn arguments_are_quoted_for_a_shell() {
    let quoted = |text: &str| quoted(OsString::from(text));
    assert_eq!(quoted("x86/vmexit.flat"), "x86/vmexit.flat");
    assert_eq!(quoted("cpuid vmcall"), "'cpuid vmcall'");
    assert_eq!(quoted("it's"), r"'it'\''s'");
    assert_eq!(quoted(""), "''");
}

#[test]
fn without_kvm_the_lab_is_named_with_this_very_command() {
    let line = ["run", "a b.flat", "--env", "e", "--append", "cpuid vmcall"];
    let text = elsewhere(line.map(OsString::from).into());
    let expected = "`vmbell lab -- vmbell run 'a b.flat' --env e --append 'cpuid vmcall'`";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn modules_have_their_files_and_the_whole_text_as_qemu_has_it() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b,c"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let folder = folder.path().display();
    let list = format!("{folder}/a one,,two  three,{folder}/b,,c");
    let words = ["--initrd", &list];
    let boot = files(&args(&words), false, true).unwrap();
    let texts: Vec<&str> = boot
        .modules
        .iter()
        .map(|module| &*module.command_line)
        .collect();
    assert_eq!(
        texts,
        [
            format!("{folder}/a one,two  three"),
            format!("{folder}/b,c")
        ]
    );
    assert!(boot.initrd.is_none());
    // A kernel's initrd is one file, whatever its name.
    let path = format!("{folder}/b,c");
    let boot = files(&args(&["--initrd", &path]), true, false).unwrap();
    assert!(boot.initrd.is_some() && boot.modules.is_empty());
    let error = files(&args(&["--initrd", &path]), false, true).unwrap_err();
    let expected = format!("cannot read module {folder}/b");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn more_memory_is_advised_only_where_there_can_be_enough() {
    let initrd = tempfile::NamedTempFile::new().unwrap();
    let refusal = |len: u64, memory: u64| {
        initrd.as_file().set_len(len).unwrap();
        file("initrd", initrd.path(), memory)
            .unwrap_err()
            .to_string()
    };
    let small = 2 << 20;
    assert!(refusal(small, small).ends_with(": give it more (--memory)"));
    for (len, memory) in [(MEMORY_MOST, small), (MEMORY_MOST, MEMORY_MOST)] {
        let expected =
            format!("of {memory} bytes, and no machine has more than {MEMORY_MOST} bytes");
        assert!(refusal(len, memory).ends_with(&expected));
    }
}

#[test]
fn nested_guest_polls_and_its_kernel_gets_parameters_before_those_of_the_user() {
    let plain = args(&["--append", "quiet"]);
    assert_eq!(plain.notify(), Notify::Doorbell);
    assert_eq!(plain.arguments(true), "quiet");
    let nested = args(&["--nested-guest", "--append", "virtio_net.napi_tx=1"]);
    assert_eq!(nested.notify(), Notify::Poll);
    let words = "virtio_net.napi_tx=0 virtio_net.napi_tx=1";
    assert_eq!(nested.arguments(true), words);
    // Other images may interpret their arguments differently.
    assert_eq!(nested.arguments(false), "virtio_net.napi_tx=1");
}
