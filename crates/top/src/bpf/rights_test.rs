use super::*;

#[test]
fn a_capability_is_one_bit_of_the_effective_set() {
    let status = |set: &str| format!("Name:\tvmbell\nCapInh:\t000001ffffffffff\nCapEff:\t{set}\n");
    assert!(has_capability(&status("0000000000200000"), CAP_SYS_ADMIN));
    assert!(!has_capability(&status("000001ffffdfffff"), CAP_SYS_ADMIN));
    assert!(!has_capability("Name:\tvmbell\n", CAP_SYS_ADMIN));
}

#[test]
fn a_program_that_lockdown_refuses_is_explained() {
    let refused = Refused {
        source: io::Error::from_raw_os_error(libc::EINVAL),
        log: "program of this type cannot use helper bpf_probe_read_kernel#113\n".to_owned(),
    };
    assert_eq!(explain_refused(refused).to_string(), LOCKED);
}

#[test]
fn a_refusal_says_the_verifiers_last_words() {
    let log = "0: R1=ctx() R10=fp0\n5: (79) r7 = *(u64 *)(r6 +0)\nR7 invalid mem access\n\
               processed 5 insns (limit 1000000)\n\n";
    let refused = Refused {
        source: io::Error::from_raw_os_error(libc::EACCES),
        log: log.to_owned(),
    };
    assert_eq!(
        explain_refused(refused).to_string(),
        "this kernel refuses the program: R7 invalid mem access"
    );
    assert_eq!(last_words(""), "the verifier said nothing");
}

#[test]
fn a_program_that_is_refused_without_a_word_of_the_verifier_is_forbidden() {
    let refused = |code| Refused {
        source: io::Error::from_raw_os_error(code),
        log: String::new(),
    };
    let text = |code| explain_refused(refused(code)).to_string();
    assert_eq!(text(libc::EPERM), FORBIDDEN);
    assert!(text(libc::EINVAL).ends_with("the verifier said nothing"));
}

#[test]
fn a_refused_system_call_is_explained() {
    let text = |code| explain(io::Error::from_raw_os_error(code)).to_string();
    assert_eq!(text(libc::EPERM), CONTAINER);
    assert_eq!(text(libc::ENOMEM), "bpf(2) failed");
}
