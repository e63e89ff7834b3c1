// The first vcpu interrupts all others COUNT times, each time after the last of them has answered. It has ADDRESS = how many
// others there are and VALUE = how it sends: 0, one write for each; 1, one write for all. The others have ADDRESS = the first
// vcpu's page. Each vcpu has its own page, and waits halted for its own count of answers, ANSWERED. TARGET counts the
// interrupts, so that a vcpu which takes one twice answers it once.
20:
    ldr x25, [x19, #{ADDRESS}]
    mov x23, xzr
    add x22, x19, #{ANSWERED}
    cbnz x20, 7f
1:
    // Each other vcpu answers once when it is ready for the run.
    add x23, x23, #1
    bl 50f
    ldr x24, [x19, #{COUNT}]
    isb
    mrs x26, cntvct_el0
2:
    str x25, [x19, #{PENDING}]
    add x23, x23, #1
    add x9, x19, #{TARGET}
    stlr x23, [x9]
    ldr x9, [x19, #{VALUE}]
    cbnz x9, 4f
    mov x27, x25
3:
    mov x0, xzr
    mov x1, x27
    bl 17b
    subs x27, x27, #1
    b.ne 3b
    b 6f
4:
    // All but the sender: the IRM bit of ICC_SGI1R_EL1, or the target list filter of GICD_SGIR.
    dsb ishst
    cbnz x21, 5f
    mov x0, #(1 << 40)
    msr S3_0_C12_C11_5, x0
    isb
    b 6f
5:
    movz x1, #({GICD} >> 16), lsl #16
    mov w0, #(1 << 24)
    str w0, [x1, #0xf00]
6:
    bl 50f
    subs x24, x24, #1
    b.ne 2b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x26
    str x9, [x19, #{TICKS}]
    str x25, [x19, #{PENDING}]
    bl 60f
    b 1b
7:
    mov x24, xzr
1:
    ldr x9, [x19, #{COUNT}]
    add x23, x23, x9
    bl 40f
    bl 50f
    bl 60f
    b 1b
// Ends the run.
60:
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    ret
// Halts until there are x23 answers. Interrupts are masked except right after wfi, which ends when an interrupt is
// pending, masked or not.
50:
    ldar x9, [x22]
    cmp x9, x23
    b.hs 1f
    dsb sy
    wfi
    msr daifclr, #2
    // A pending interrupt is taken here at the latest.
    isb
    msr daifset, #2
    b 50b
1:
    ret
// Answers. The last vcpu to answer interrupts the first vcpu, which may see the count before its interrupt comes.
40:
    add x0, x25, #{PENDING}
1:
    ldaxr x1, [x0]
    sub x1, x1, #1
    stlxr w2, x1, [x0]
    cbnz w2, 1b
    cbnz x1, 2f
    add x0, x25, #{ANSWERED}
    ldr x1, [x0]
    add x1, x1, #1
    stlr x1, [x0]
    str x30, [sp, #-16]!
    mov x0, xzr
    mov x1, xzr
    bl 17b
    ldr x30, [sp], #16
2:
    ret
30:
    cbz x20, 15b
    add x0, x25, #{TARGET}
    ldar x1, [x0]
    cmp x1, x24
    b.eq 15b
    mov x24, x1
    ldr x1, [x22]
    add x1, x1, #1
    str x1, [x22]
    str x30, [sp, #-16]!
    bl 40b
    ldr x30, [sp], #16
    b 15b
