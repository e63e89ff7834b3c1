//! Compares the stub's decoder with iced-x86: both have the same result for each instruction that the stub decodes.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use proptest::prelude::*;
use stub::decode::{self, MAX_LEN, Memory, Operation, Source, decode};

const RIP: u64 = 0x12_3456;

/// Decodes an instruction, and returns how many bytes the decoder read.
fn ours(bytes: &[u8]) -> (Option<decode::Instruction>, u8) {
    let mut asked = 0;
    let decoded = decode(|place| {
        assert_eq!(place, asked, "bytes are asked for in order");
        asked += 1;
        bytes[usize::from(place)]
    });
    (decoded, asked)
}

fn theirs(bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, RIP, DecoderOptions::NONE).decode()
}

/// Returns a value for each general register, so that addresses differ if they use a different register.
fn value(number: u8) -> u64 {
    0x1111_2345_6789_0101_u64.wrapping_mul(u64::from(number) * 2 + 3)
}

fn number(register: Register) -> u8 {
    u8::try_from(register.full_register() as u32 - Register::RAX as u32).unwrap()
}

fn address(memory: &Memory, next: u64) -> Option<u64> {
    memory.address(value, next)
}

fn their_address(instruction: &Instruction, operand: u32) -> u64 {
    let register = |register: Register, _: usize, _: usize| {
        if register.is_segment_register() {
            return Some(0);
        }
        let value = value(number(register));
        Some(if register.is_gpr32() {
            value & 0xffff_ffff
        } else {
            value
        })
    };
    instruction.virtual_address(operand, 0, register).unwrap()
}

/// Compares the stub's decoding of `bytes` with that of iced-x86.
fn agree(bytes: &[u8]) -> Option<decode::Instruction> {
    let (decoded, asked) = ours(bytes);
    assert!(asked <= MAX_LEN);
    let instruction = decoded?;
    let other = theirs(bytes);
    let what = format!("{bytes:02x?} is {instruction:?}, and {other:?}");
    assert!(!other.is_invalid(), "{what}");
    assert_eq!(usize::from(instruction.len), other.len(), "{what}");
    assert_eq!(
        asked, instruction.len,
        "asked for bytes after its end: {what}"
    );
    let next = RIP + u64::from(instruction.len);
    let segment = matches!(other.segment_prefix(), Register::FS | Register::GS);
    let check_address = |operand| match address(&instruction.memory, next) {
        Some(address) => assert_eq!(address, their_address(&other, operand), "{what}"),
        None => assert!(segment, "{what}"),
    };
    match instruction.operation {
        Operation::Store { width, source } => {
            assert!(
                matches!(other.mnemonic(), Mnemonic::Mov | Mnemonic::Movnti),
                "{what}"
            );
            assert_eq!(usize::from(width), other.memory_size().size(), "{what}");
            check_address(0);
            match source {
                Source::Register(register) => {
                    same_register(register, width, other.op1_register(), &what);
                }
                Source::Immediate(value) => {
                    let mask = u64::MAX >> (64 - 8 * u32::from(width));
                    assert_eq!(value & mask, other.immediate(1) & mask, "{what}");
                }
            }
        }
        Operation::Load {
            width,
            target,
            target_width,
            sign,
        } => {
            let signed = matches!(other.mnemonic(), Mnemonic::Movsx | Mnemonic::Movsxd);
            assert!(
                signed || matches!(other.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx),
                "{what}"
            );
            // A sign extension to the same width is a plain load.
            assert_eq!(sign, signed, "{what}");
            assert_eq!(usize::from(width), other.memory_size().size(), "{what}");
            assert_eq!(
                usize::from(target_width),
                other.op0_register().size(),
                "{what}"
            );
            check_address(1);
            same_register(target, target_width, other.op0_register(), &what);
        }
        Operation::In { width, port } => {
            assert_eq!(other.mnemonic(), Mnemonic::In, "{what}");
            assert_eq!(usize::from(width), other.op0_register().size(), "{what}");
            same_port(port, &other, 1, &what);
        }
        Operation::Out { width, port } => {
            assert_eq!(other.mnemonic(), Mnemonic::Out, "{what}");
            assert_eq!(usize::from(width), other.op1_register().size(), "{what}");
            same_port(port, &other, 0, &what);
        }
        Operation::Ins { width, repeat } | Operation::Outs { width, repeat } => {
            let input = matches!(
                other.mnemonic(),
                Mnemonic::Insb | Mnemonic::Insw | Mnemonic::Insd
            );
            assert_eq!(
                input,
                matches!(instruction.operation, Operation::Ins { .. }),
                "{what}"
            );
            assert_eq!(usize::from(width), other.memory_size().size(), "{what}");
            assert_eq!(
                repeat,
                other.has_rep_prefix() || other.has_repne_prefix(),
                "{what}"
            );
        }
        Operation::Hlt => assert_eq!(other.mnemonic(), Mnemonic::Hlt, "{what}"),
        Operation::Cli => assert_eq!(other.mnemonic(), Mnemonic::Cli, "{what}"),
        Operation::Sti => assert_eq!(other.mnemonic(), Mnemonic::Sti, "{what}"),
        Operation::Rdmsr => assert_eq!(other.mnemonic(), Mnemonic::Rdmsr, "{what}"),
        Operation::Wrmsr => assert_eq!(other.mnemonic(), Mnemonic::Wrmsr, "{what}"),
    }
    Some(instruction)
}

fn same_register(register: decode::Register, width: u8, other: Register, what: &str) {
    assert_eq!(register.number, number(other), "{what}");
    assert_eq!(usize::from(width), other.size(), "{what}");
    let high = [Register::AH, Register::CH, Register::DH, Register::BH].contains(&other);
    assert_eq!(register.high, high, "{what}");
}

fn same_port(port: Option<u8>, other: &Instruction, operand: u32, what: &str) {
    let constant = other.op_kind(operand) == OpKind::Immediate8;
    assert_eq!(port, constant.then(|| other.immediate8()), "{what}");
}

/// Generates bytes that begin with prefixes and an interesting opcode more often than chance would.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let prefixes = prop::collection::vec(
        prop::sample::select(
            &[
                0x66_u8, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0xf0,
            ][..],
        ),
        0..3,
    );
    let rex = prop::option::of(0x40_u8..0x50);
    let opcodes: Vec<Vec<u8>> = [
        0x63_u8, 0x6c, 0x6d, 0x6e, 0x6f, 0x88, 0x89, 0x8a, 0x8b, 0xa0, 0xa1, 0xa2, 0xa3,
    ]
    .into_iter()
    .chain([
        0xc6, 0xc7, 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef, 0xf4,
    ])
    .map(|byte| vec![byte])
    .chain([0x30_u8, 0x32, 0xb6, 0xb7, 0xbe, 0xbf, 0xc3, 0xb8, 0xc2].map(|byte| vec![0x0f, byte]))
    .collect();
    let rest = prop::collection::vec(any::<u8>(), 15);
    (prefixes, rex, prop::sample::select(opcodes), rest).prop_map(
        |(prefixes, rex, opcode, rest)| {
            prefixes
                .into_iter()
                .chain(rex)
                .chain(opcode)
                .chain(rest)
                .collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_mean_the_same_to_both(bytes in prop::collection::vec(any::<u8>(), 16)) {
        agree(&bytes);
    }

    #[test]
    fn likely_bytes_mean_the_same_to_both(bytes in likely()) {
        agree(&bytes);
    }
}

#[test]
fn every_modrm_and_sib_of_every_form_means_the_same_to_both() {
    let opcodes: [&[u8]; 11] = [
        &[0x88],
        &[0x89],
        &[0x8a],
        &[0x8b],
        &[0xc6],
        &[0xc7],
        &[0x63],
        &[0x0f, 0xb6],
        &[0x0f, 0xbf],
        &[0x0f, 0xc3],
        &[0x0f, 0xb7],
    ];
    let prefixes: [&[u8]; 7] = [
        &[],
        &[0x66],
        &[0x67],
        &[0x48],
        &[0x47],
        &[0x66, 0x4f],
        &[0x67, 0x41],
    ];
    let mut decoded = 0;
    for (opcode, prefix) in opcodes
        .into_iter()
        .flat_map(|opcode| prefixes.map(|prefix| (opcode, prefix)))
    {
        for modrm in 0..=255_u8 {
            for sib in (0..=255_u8).step_by(if modrm & 7 == 4 { 1 } else { 255 }) {
                let mut bytes = [prefix, opcode, &[modrm, sib]].concat();
                bytes.extend((0..15_u8).map(|place| place.wrapping_mul(0x1d) ^ 0x93));
                decoded += u32::from(agree(&bytes).is_some());
            }
        }
    }
    // Three quarters of all cases have a memory operand.
    assert!(decoded > 100_000, "{decoded}");
}

/// The forms that must be decoded, by their names in iced-x86.
#[test]
fn every_promised_form_is_decoded() {
    let promised = [
        Code::Mov_rm8_r8,
        Code::Mov_rm16_r16,
        Code::Mov_rm32_r32,
        Code::Mov_rm64_r64,
        Code::Mov_r8_rm8,
        Code::Mov_r16_rm16,
        Code::Mov_r32_rm32,
        Code::Mov_r64_rm64,
        Code::Mov_rm8_imm8,
        Code::Mov_rm16_imm16,
        Code::Mov_rm32_imm32,
        Code::Mov_rm64_imm32,
        Code::Mov_AL_moffs8,
        Code::Mov_AX_moffs16,
        Code::Mov_EAX_moffs32,
        Code::Mov_RAX_moffs64,
        Code::Mov_moffs8_AL,
        Code::Mov_moffs16_AX,
        Code::Mov_moffs32_EAX,
        Code::Mov_moffs64_RAX,
        Code::Movzx_r16_rm8,
        Code::Movzx_r32_rm8,
        Code::Movzx_r64_rm8,
        Code::Movzx_r32_rm16,
        Code::Movzx_r64_rm16,
        Code::Movsx_r16_rm8,
        Code::Movsx_r32_rm8,
        Code::Movsx_r64_rm8,
        Code::Movsx_r32_rm16,
        Code::Movsx_r64_rm16,
        Code::Movsxd_r64_rm32,
        Code::Movnti_m32_r32,
        Code::Movnti_m64_r64,
        Code::In_AL_imm8,
        Code::In_AX_imm8,
        Code::In_EAX_imm8,
        Code::In_AL_DX,
        Code::In_AX_DX,
        Code::In_EAX_DX,
        Code::Out_imm8_AL,
        Code::Out_imm8_AX,
        Code::Out_imm8_EAX,
        Code::Out_DX_AL,
        Code::Out_DX_AX,
        Code::Out_DX_EAX,
        Code::Insb_m8_DX,
        Code::Insw_m16_DX,
        Code::Insd_m32_DX,
        Code::Outsb_DX_m8,
        Code::Outsw_DX_m16,
        Code::Outsd_DX_m32,
        Code::Hlt,
        Code::Rdmsr,
        Code::Wrmsr,
    ];
    let mut missing: Vec<Code> = promised.to_vec();
    let opcodes = (0..=255_u8)
        .map(|byte| vec![byte])
        .chain((0..=255_u8).map(|byte| vec![0x0f, byte]));
    for opcode in opcodes {
        for prefix in [&[][..], &[0x66], &[0x48]] {
            // [rbx + rcx * 4 + 0x10], register field 0
            let bytes = [prefix, &opcode, &[0x44, 0x8b, 0x10], &[0; 12]].concat();
            let code = theirs(&bytes).code();
            if missing.contains(&code) && agree(&bytes).is_some() {
                missing.retain(|promised| *promised != code);
            }
        }
    }
    assert_eq!(missing, [], "not decoded");
}

#[test]
fn an_instruction_of_more_than_15_bytes_is_none() {
    let mut bytes = vec![0x66; 14];
    bytes.push(0xee);
    bytes.push(0);
    assert!(agree(&bytes).is_some());
    let mut bytes = vec![0x66; 15];
    bytes.push(0xee);
    assert_eq!(ours(&bytes), (None, MAX_LEN));
}
