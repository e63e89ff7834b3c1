// Rings COUNT times with the macros of the previous file: it waits PAUSE ticks before each ring, and for the host's
// answer after it. x0 = parameters. `ring` follows right after the time of STAMP; `prepare` first does what `ring`
// needs and is not part of the ring. x19 and x22 to x24 are in use here; `prepare` and `ring` have x25 to x28.
    mov x19, x0
    add x24, x19, #{ANSWERED}
1:
    ldr x22, [x19, #{COUNT}]
2:
    isb
    mrs x9, cntvct_el0
    ldr x10, [x19, #{PAUSE}]
3:
    yield
    isb
    mrs x11, cntvct_el0
    sub x11, x11, x9
    cmp x11, x10
    b.lo 3b
    prepare
    ldr x23, [x19, #{RINGS}]
    add x23, x23, #1
    str x23, [x19, #{RINGS}]
    isb
    mrs x9, cntvct_el0
    str x9, [x19, #{STAMP}]
    ring
4:
    yield
    ldar x9, [x24]
    cmp x9, x23
    b.lo 4b
    subs x22, x22, #1
    b.ne 2b
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 1b
.purgem prepare
.purgem ring
