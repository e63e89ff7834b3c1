// Plays the script at ADDRESS: records of a u32 kind, a u32 width, a u64 address, value and result, until one of kind
// 0; then says done, and begins again when it is entered again. The kinds are the same as in the script for x86-64, as
// far as arm64 has them.
    mov x19, x0
2:
    ldr x20, [x19, #{ADDRESS}]
3:
    ldp w21, w22, [x20]
    ldp x23, x0, [x20, #8]
    cmp w21, #3
    b.eq 40f
    cmp w21, #4
    b.eq 50f
    cmp w21, #5
    b.eq 60f
    cmp w21, #6
    b.eq 70f
    cmp w21, #9
    b.eq 82f
    cmp w21, #10
    b.eq 83f
    mov x9, #{DONE_ADDRESS}
    // Any other kind except 0 is an error, which the exit reports.
    str w21, [x9]
    b 2b
4:
    str x0, [x20, #24]
    add x20, x20, #32
    b 3b
// Store.
40:
    cmp w22, #2
    b.eq 42f
    b.hi 43f
    strb w0, [x23]
    b 4b
42:
    strh w0, [x23]
    b 4b
43:
    cmp w22, #8
    b.eq 44f
    b.hi 45f
    str w0, [x23]
    b 4b
44:
    str x0, [x23]
    b 4b
45:
    str q0, [x23]
    b 4b
// Load.
50:
    cmp w22, #2
    b.eq 52f
    b.hi 53f
    ldrb w0, [x23]
    b 4b
52:
    ldrh w0, [x23]
    b 4b
53:
    cmp w22, #8
    b.eq 54f
    ldr w0, [x23]
    b 4b
54:
    ldr x0, [x23]
    b 4b
// Hypercall.
60:
    mov x1, x0
    mov x0, x23
    movz x9, #({HYPERCALL_PAGE} & 0xffff)
    movk x9, #({HYPERCALL_PAGE} >> 16 & 0xffff), lsl #16
    blr x9
    b 4b
70:
    wfi
    b 4b
82:
    msr daifclr, #2
    isb
    b 4b
83:
    msr daifset, #2
    b 4b
