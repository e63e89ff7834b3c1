use super::*;

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
