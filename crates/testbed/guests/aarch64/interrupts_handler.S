// Takes interrupts while it does what VALUE says, until PAUSE is not 0: 0 spins, 1 halts, 2 and 3 store at ADDRESS, 4
// calls hypercall ADDRESS, 5 masks and unmasks. COUNT: bit 3 takes work from 0x7d0 for each interrupt, and counts
// interrupts without work at 0x7c8; bit 4 then stores to PIN, before the end of the interrupt. A pattern is in vector
// registers and is compared in each round: the program says done with 0, or with 1 if a register changed. RINGS counts
// rounds. The page of the parameters has a count for each vector at 0x800. LPI 8192 + 256 * index + V is vector V; SPI
// 36, a level, and SPI 37, an edge, are vectors 0x60 and 0x61 of the first vcpu; SPI 40 + index is an edge and vector
// 0xfe. gic.S, its.S and interrupts.S follow.
    b 10f
    .balign 16
    stp x0, x1, [sp, #-48]!
    stp x2, x3, [sp, #16]
    stp x5, x30, [sp, #32]
    cbnz x21, 1f
    mrs x5, S3_0_C12_C12_0
    dsb sy
    mov w0, w5
    b 2f
1:
    ldr w5, [x21, #0xc]
    and w0, w5, #0x3ff
2:
    sub w1, w0, #1020
    cmp w1, #4
    b.lo 7f
    and w1, w0, #0xff
    cmp w0, #1020
    b.hi 3f
    add w1, w0, #0x3c
    cmp w0, #40
    b.lo 3f
    mov w1, #0xfe
3:
    add x2, x19, #0x800
    add x2, x2, w1, uxtw #3
31:
    ldaxr x3, [x2]
    add x3, x3, #1
    stlxr w16, x3, [x2]
    cbnz w16, 31b
    ldr x3, [x19, #{COUNT}]
    tbz w3, #3, 5f
    cmp w1, #0xfe
    b.eq 5f
    add x2, x19, #0x7d0
4:
    ldaxr x16, [x2]
    cbz x16, 6f
    sub x16, x16, #1
    stlxr w17, x16, [x2]
    cbnz w17, 4b
    tbz w3, #4, 5f
    ldr x2, [x19, #{PIN}]
    str wzr, [x2]
5:
    cbnz x21, 1f
    msr S3_0_C12_C12_1, x5
    isb
    b 7f
1:
    str w5, [x21, #0x10]
7:
    ldp x5, x30, [sp, #32]
    ldp x2, x3, [sp, #16]
    ldp x0, x1, [sp], #48
    ldp x16, x17, [sp], #16
    eret
6:
    clrex
    ldr x16, [x19, #0x7c8]
    add x16, x16, #1
    str x16, [x19, #0x7c8]
    b 5b
