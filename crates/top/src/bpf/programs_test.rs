use super::*;
use crate::bpf::asm::Helper;
use crate::btf::tests::Made;

/// The parts of KVM's types that the programs use, as a kernel with a built-in KVM has them.
fn kvm() -> Made {
    let mut made = Made::kernel();
    let (byte, half, word, long) = (made.int(1), made.int(2), made.int(4), made.int(8));
    let pointer = made.pointer(long);
    made.structure("kvm", &[("userspace_pid", word, 6944)]);
    let arch = made.structure("", &[("regs", long, 0)]);
    made.structure(
        "kvm_vcpu",
        &[
            ("kvm", pointer, 0),
            ("run", pointer, 104),
            ("vcpu_id", word, 20),
            ("arch", arch, 296),
        ],
    );
    let io = made.structure(
        "",
        &[("direction", byte, 0), ("size", byte, 1), ("port", half, 2)],
    );
    let mmio = made.structure(
        "",
        &[
            ("phys_addr", long, 0),
            ("len", word, 16),
            ("is_write", byte, 20),
        ],
    );
    let msr = made.structure("", &[("index", word, 12)]);
    let hw = made.structure("", &[("hardware_exit_reason", long, 0)]);
    let exit = [
        ("hw", hw, 32),
        ("io", io, 32),
        ("mmio", mmio, 32),
        ("msr", msr, 32),
        ("exit_reason", word, 8),
    ];
    made.structure("kvm_run", &exit);
    made.structure(
        "_ioeventfd",
        &[
            ("eventfd", pointer, 32),
            ("dev", pointer, 48),
            ("bus_idx", byte, 64),
        ],
    );
    let head = made.structure("", &[("head", pointer, 8)]);
    made.structure("eventfd_ctx", &[("wqh", head, 8), ("id", word, 60)]);
    made.structure(
        "wait_queue_entry",
        &[("func", pointer, 16), ("entry", pointer, 24)],
    );
    made.structure("kvm_kernel_irq_routing_entry", &[("gsi", word, 0)]);
    made.structure("kvm_msi", &[("data", word, 8)]);
    made.structure("kvm_lapic", &[("vcpu", pointer, 144)]);
    made.function("kvm_arch_vcpu_ioctl_run", &["vcpu"]);
    made.function("ioeventfd_write", &["vcpu", "this", "addr", "len", "val"]);
    made.function(
        "kvm_arch_set_irq_inatomic",
        &["e", "kvm", "irq_source_id", "level", "line_status"],
    );
    made.function("kvm_send_userspace_msi", &["kvm", "msi"]);
    made.function(
        "kvm_set_irq",
        &["kvm", "irq_source_id", "irq", "level", "line_status"],
    );
    irq_line(&mut made);
    made.tracepoint("kvm_eoi");
    made.tracepoint("kvm_pv_eoi");
    made.tracepoint("kvm_exit");
    for (write, read, _) in DEVICES {
        for function in [write, read] {
            made.function(function, &["vcpu", "this", "addr", "len", "val"]);
        }
    }
    for function in [
        "kvm_emulate_wrmsr",
        "kvm_emulate_rdmsr",
        "handle_fastpath_wrmsr",
    ] {
        made.function(function, &["vcpu"]);
    }
    made
}

/// Adds what `KVM_IRQ_LINE` calls, which arm64 needs.
fn irq_line(made: &mut Made) {
    let word = made.int(4);
    made.structure("kvm_irq_level", &[("irq", word, 0), ("level", word, 4)]);
    let parameters = ["kvm", "irq_level", "line_status"];
    made.function("kvm_vm_ioctl_irq_line", &parameters);
}

/// The types of KVM's module for AMD or for Intel.
fn cpu(isa: Isa) -> Cpu {
    let mut made = Made::kernel();
    let (word, long) = (made.int(4), made.int(8));
    let pointer = made.pointer(long);
    made.structure("vcpu_svm", &[("vcpu", pointer, 0), ("vmcb", pointer, 6480)]);
    made.structure("vmcb", &[("control", long, 0)]);
    made.structure("vmcb_control_area", &[("exit_code", word, 112)]);
    let vt = made.structure("", &[("exit_reason", word, 8)]);
    made.structure("vcpu_vmx", &[("vcpu", pointer, 0), ("vt", vt, 6400)]);
    let btf = Btf::parse(&made.bytes(), None).unwrap();
    Cpu { isa, btf }
}

fn target(creators: &[u32]) -> BtfTarget {
    BtfTarget {
        counters: 3,
        vcpus: 4,
        lost: 5,
        away: Some(6),
        creators: creators.to_vec(),
    }
}

fn program(metric: Metric, made: &Made, creators: &[u32]) -> Result<Program> {
    let [program] = <[Program; 1]>::try_from(programs(metric, made, creators)?).unwrap();
    Ok(program)
}

fn programs(metric: Metric, made: &Made, creators: &[u32]) -> Result<Vec<Program>> {
    let btf = Btf::parse(&made.bytes(), None).unwrap();
    Program::all(metric, &btf, Some(&cpu(Isa::Svm)), &target(creators))
}

/// Instructions as bytes in memory order, as `llvm-objdump` shows them.
fn hex(code: &[u64]) -> Vec<String> {
    let word = |word: &u64| format!("{:016x}", word.swap_bytes());
    code.iter().map(word).collect()
}

#[test]
fn a_kick_is_counted_for_its_vm_and_its_vcpu() {
    let mut made = kvm();
    let id = made.function("kvm_vcpu_kick", &["vcpu"]);
    let program = program(Metric::Kicks, &made, &[]).unwrap();
    assert_eq!((program.attach, program.function.id), (Attach::Entry, id));
    let code = hex(&program.code);
    assert_eq!(
        code,
        [
            "bf16000000000000", // r6 = r1, the context
            "7967000000000000", // r7 = its first word, the vCPU
            "7978000000000000", // r8 = vcpu->kvm
            "6181201b00000000", // r1 = kvm->userspace_pid
            "631af4ff00000000", // the key: the VM's creator,
            "bf81000000000000",
            "1822000005000000",
            "0000000000000000",
            "1f21000000000000",
            "770100000c000000",
            "631af0ff00000000", // the VM, as the distance of its page,
            "620af8ff00000000", // no ioeventfd,
            "620afcff00000a00", // a kick without an access
            "6171140000000000", // r1 = vcpu->vcpu_id
            "6b1afcff00000000", // the vCPU,
            "7a0ae8ff00000000", // and no address
            "1811000003000000", // r1 = the map
            "0000000000000000",
            "bfa2000000000000", // r2 = the key
            "07020000e8ffffff",
            "8500000001000000", // look it up
            "1500040000000000", // it is new
            "b701000001000000",
            "db10000000000000", // add 1, atomically
            "b700000000000000",
            "9500000000000000", // the end
            "7a0ac8ff01000000", // the value: 1,
            "7a0ad0ff00000000", // and nothing more
            "7a0ad8ff00000000",
            "7a0ae0ff00000000",
            "1811000003000000",
            "0000000000000000",
            "bfa2000000000000",
            "07020000e8ffffff",
            "bfa3000000000000",
            "07030000c8ffffff",
            "b704000001000000", // unless it exists by now
            "8500000002000000", // insert
            "1500080000000000", // done
            "56000900efffffff", // neither done nor there: lost
            "1811000003000000",
            "0000000000000000",
            "bfa2000000000000",
            "07020000e8ffffff",
            "8500000001000000", // look it up again
            "1500030000000000", // gone: lost
            "0500e7ff00000000", // add 1
            "b700000000000000",
            "9500000000000000", // the end
            "1820000005000000", // lost: r0 = its counter
            "0000000000000000",
            "0500e2ff00000000", // add 1
        ]
    );
}

#[test]
fn a_vm_that_is_not_watched_is_left_before_anything_is_counted() {
    let mut made = kvm();
    made.function("kvm_vcpu_kick", &["vcpu"]);
    let program = program(Metric::Kicks, &made, &[100, 200]).unwrap();
    let code = hex(&program.code[4..7]);
    // There is a jump for each creator, then a jump to the end. The end is two instructions before the part for new
    // keys.
    assert_eq!(
        code,
        ["1501020064000000", "15010100c8000000", "0500140000000000"]
    );
    assert_eq!(program.code[6 + 1 + 0x14] & 0xff, 0xb7);
    assert_eq!(program.code[6 + 2 + 0x14] & 0xff, 0x95);
}

#[test]
fn every_metric_has_a_program_on_a_kernel_that_has_its_functions() {
    let mut made = kvm();
    made.function("__kvm_vcpu_kick", &["vcpu", "wait"]);
    for metric in Metric::ALL {
        let programs = programs(metric, &made, &[]).unwrap();
        assert!(!programs.is_empty());
        for program in programs {
            assert!(program.code.len() > 30, "{metric:?}");
        }
    }
}

#[test]
fn the_reason_of_an_exit_is_found_on_both_kinds_of_cpus() {
    let btf = Btf::parse(&kvm().bytes(), None).unwrap();
    let additions = |isa| {
        let cpu = cpu(isa);
        let programs = Program::all(Metric::Exits, &btf, Some(&cpu), &target(&[])).unwrap();
        let [program] = <[Program; 1]>::try_from(programs).unwrap();
        // r3 += a number
        let words = program.code.iter();
        let additions = words.filter(|word| **word & 0xffff == 0x0307);
        additions.map(|word| word >> 32).collect::<Vec<_>>()
    };
    // The last addition is for the counter's value, at an insertion.
    assert_eq!(additions(Isa::Svm)[..2], [6480, 112]);
    assert_eq!(additions(Isa::Vmx)[0], 6408);
    let none = Program::all(Metric::Exits, &btf, None, &target(&[]));
    assert_eq!(
        none.unwrap_err().to_string(),
        "this kernel has no function of kvm_amd or kvm_intel"
    );
}

#[test]
fn an_exit_leaves_its_time_only_if_the_time_is_counted() {
    let btf = Btf::parse(&kvm().bytes(), None).unwrap();
    let has_time = |away| {
        let target = BtfTarget {
            away,
            ..target(&[])
        };
        let programs = Program::all(Metric::ToVmm, &btf, None, &target).unwrap();
        let call = u64::from_le_bytes([0x85, 0, 0, 0, Helper::Time as u8, 0, 0, 0]);
        programs[0].code.contains(&call)
    };
    assert!(has_time(Some(6)) && !has_time(None));
}

#[test]
fn a_program_whose_function_is_not_there_is_named() {
    let error = program(Metric::Kicks, &kvm(), &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "this kernel has no function __kvm_vcpu_kick or kvm_vcpu_kick"
    );
}

#[test]
fn parameters_are_found_by_their_names() {
    // Linux 6.17 has one parameter fewer.
    let place = |parameters: &[&str]| {
        let mut made = Made::kernel();
        let word = made.int(4);
        made.structure("kvm", &[("userspace_pid", word, 8)]);
        made.function("kvm_set_irq", parameters);
        irq_line(&mut made);
        let program = programs(Metric::Lines, &made, &[]).unwrap().remove(0);
        // The first load is of the level.
        program.code[1].to_le_bytes()[2]
    };
    assert_eq!(
        place(&["kvm", "irq_source_id", "irq", "level", "line_status"]),
        24
    );
    assert_eq!(place(&["kvm", "irq", "level", "line_status"]), 16);
}

#[test]
fn arm64s_ioctl_counts_a_line_that_it_raises_by_its_number() {
    let btf = Btf::parse(&kvm().bytes(), None).unwrap();
    let function = btf.function(&["kvm_vm_ioctl_irq_line"]).unwrap();
    let body = |builder: &mut Builder<'_>| builder.lines_by_ioctl();
    let program = Program::new(Attach::Entry, function, &btf, &target(&[]), body).unwrap();
    let code = hex(&program.code);
    // r7 = the second parameter; r1 = its level; to the end if that is 0.
    assert_eq!(code[1..3], ["7967080000000000", "6171040000000000"]);
    assert!(code[3].starts_with("1601") && code[3].ends_with("00000000"));
    let address = ["6171000000000000", "57010000ffff0000", "7b1ae8ff00000000"];
    assert!(code.windows(3).any(|words| words == address), "{code:#?}");
}

#[test]
fn a_member_that_a_load_does_not_reach_is_reached_by_an_addition() {
    let mut made = Made::kernel();
    let word = made.int(4);
    made.structure("kvm", &[("userspace_pid", word, 0x9c40)]);
    made.structure("kvm_msi", &[("data", word, 8)]);
    made.function("kvm_send_userspace_msi", &["kvm", "msi"]);
    let program = program(Metric::Messages, &made, &[]).unwrap();
    let code = hex(&program.code[2..5]);
    // r1 = r8; r1 += 0x9c40; r1 = *r1
    assert_eq!(
        code,
        ["bf81000000000000", "07010000409c0000", "6111000000000000"]
    );
}
