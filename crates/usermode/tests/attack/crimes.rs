//! Instructions that end a guest, and the faults that are reported for them.

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{Fault, Hypervisor, VmConfig, VmEntry, VmExit};

use testbed::process::{await_gone, with_sandbox};
use testbed::{Deadline, HOLE, chain, fault, programs, start, step};

/// Runs one entry of `crimes.S` to its fault; the guest cannot continue after it.
fn commit<H: Hypervisor>(h: &H, number: u64, address: u64) -> Fault {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut vcpu = start(
        &vm,
        programs::crimes(),
        Parameters {
            count: number,
            address,
            ..Parameters::default()
        },
        0,
    );
    let fault = fault(&mut vcpu);
    let again = vcpu.run(VmEntry::Resume).expect_err("a guest that faulted");
    assert!(
        chain(&again).contains("faulted before"),
        "{}",
        chain(&again)
    );
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
    fault
}

pub fn a_system_call_is_a_fault<H: Hypervisor>(h: &H) {
    for (number, bytes) in [(0, [0x0f, 0x05]), (1, [0xcd, 0x80])] {
        let fault = commit(h, number, 0);
        assert_eq!(fault.bytes[..2], bytes, "{fault}");
        assert!(fault.to_string().contains("system call"), "{fault}");
    }
}

/// AMD processors do not have `sysenter` in 64-bit mode; on Intel processors the kernel returns to 32-bit code.
pub fn sysenter_ends_the_guest<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut vcpu = start(
        &vm,
        programs::crimes(),
        Parameters {
            count: 2,
            ..Parameters::default()
        },
        0,
    );
    match step(&mut vcpu, VmEntry::Resume) {
        Ok(VmExit::Fault(fault)) => {
            let unknown = fault.exception == "#UD" && fault.bytes[0] == 0x0f;
            let other_mode = fault.to_string().contains("64-bit mode only");
            assert!(unknown || other_mode, "{fault}");
        }
        Ok(exit) => panic!("{exit:x?}"),
        Err(error) => assert!(
            chain(&error).contains("the sandbox ended"),
            "{}",
            chain(&error)
        ),
    }
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
}

pub fn exceptions_are_faults_by_their_names<H: Hypervisor>(h: &H) {
    for (number, name) in [
        (3, "#DE"),
        (4, "#UD"),
        (5, "#BP"),
        (12, "#GP"),
        (13, "#GP"),
        (14, "#DB"),
    ] {
        let fault = commit(h, number, 0);
        assert_eq!(fault.exception, name, "{fault}");
        assert!(fault.to_string().starts_with(name), "{fault}");
        assert!(!fault.bytes.is_empty(), "{fault}");
    }
}

pub fn an_instruction_that_is_not_decoded_shows_its_bytes<H: Hypervisor>(h: &H) {
    for (number, bytes) in [
        (6, &[0x0f, 0x11, 0x01][..]),
        (7, &[0xf0, 0xff, 0x01]),
        (8, &[0xf3, 0xaa]),
    ] {
        let fault = commit(h, number, 0);
        let what = (fault.exception, fault.address);
        assert_eq!(what, ("#PF", Some(HOLE)), "{fault}");
        assert_eq!(fault.bytes[..bytes.len()], *bytes, "{fault}");
        assert!(fault.to_string().contains("not a plain mov"), "{fault}");
    }
}

pub fn a_jump_to_nowhere_is_a_fault<H: Hypervisor>(h: &H) {
    let fault = commit(h, 9, 0);
    assert_eq!(
        (fault.pc, fault.address),
        (Some(HOLE), Some(HOLE)),
        "{fault}"
    );
    assert!(fault.to_string().contains("no memory to fetch"), "{fault}");
    let fault = commit(h, 10, 0);
    assert_eq!(fault.exception, "#GP", "{fault}");
}

pub fn an_access_where_no_guest_memory_is_is_a_fault<H: Hypervisor>(h: &H) {
    let fault = commit(h, 11, 0);
    assert_eq!(fault.address, Some(1 << 40 | HOLE), "{fault}");
    assert!(
        fault.to_string().contains("beyond the guest's 4 GiB"),
        "{fault}"
    );
    let fault = commit(h, 16, 0);
    assert!(
        fault.to_string().contains("buffer is not in RAM"),
        "{fault}"
    );
    let end = PARAMETERS.0 + VmConfig::default().ram_size;
    for address in [end - 4, end - 1, PARAMETERS.0 - 1] {
        let fault = commit(h, 17, address);
        assert!(
            fault.to_string().contains("partly in RAM"),
            "{address:#x}: {fault}"
        );
    }
}

pub fn a_push_to_a_stack_that_is_none_is_a_fault<H: Hypervisor>(h: &H) {
    let fault = commit(h, 15, 0);
    assert_eq!(fault.bytes[0], 0x50, "{fault}");
    assert!(fault.to_string().starts_with("#SS"), "{fault}");
}

pub fn code_of_another_mode_is_a_fault<H: Hypervisor>(h: &H) {
    let fault = commit(h, 19, 0);
    assert!(fault.to_string().contains("64-bit mode only"), "{fault}");
    assert_eq!(fault.bytes[0], 0xf4, "{fault}");
    // The next kick finds the fault.
    let (vm, _) = with_sandbox(h, &VmConfig::default());
    let parameters = Parameters {
        count: 20,
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, programs::crimes(), parameters, 0);
    let _kicks = Deadline::when(|| true, vcpu.kick_handle()).unwrap();
    let fault = loop {
        // The first kicks can come before the guest is in its loop.
        match vcpu.run(VmEntry::Resume).unwrap() {
            VmExit::Kicked => {}
            VmExit::Fault(fault) => break fault,
            exit => panic!("no fault but {exit:x?}"),
        }
    };
    assert!(fault.to_string().contains("64-bit mode only"), "{fault}");
}

pub fn the_last_byte_of_ram_executes_and_the_next_does_not<H: Hypervisor>(h: &H) {
    let (vm, _) = with_sandbox(h, &VmConfig::default());
    let end = PARAMETERS.0 + VmConfig::default().ram_size;
    // out dx, eax
    vm.memory()
        .write_obj(0xef_u8, GuestAddress(end - 1))
        .unwrap();
    let parameters = Parameters {
        count: 18,
        address: end - 1,
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, programs::crimes(), parameters, 0);
    assert!(matches!(
        step(&mut vcpu, VmEntry::Resume).unwrap(),
        VmExit::PioOut { len: 4, .. }
    ));
    let fault = fault(&mut vcpu);
    assert_eq!((fault.pc, fault.bytes.len()), (Some(end), 0), "{fault}");
    // 0xe7 is the first byte of a two-byte instruction, `out imm8, eax`.
    let (vm, _) = with_sandbox(h, &VmConfig::default());
    vm.memory()
        .write_obj(0xe7_u8, GuestAddress(end - 1))
        .unwrap();
    let mut vcpu = start(&vm, programs::crimes(), parameters, 0);
    let fault = testbed::fault(&mut vcpu);
    assert_eq!(
        (fault.pc, fault.address, &fault.bytes[..]),
        (Some(end - 1), Some(end), &[0xe7][..]),
        "{fault}"
    );
}
