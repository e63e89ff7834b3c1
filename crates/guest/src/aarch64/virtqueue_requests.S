// Sends COUNT requests, each after the answer to the previous one. The macros of an earlier file wait for the answer.
// The previous file has set up the queue.
    begin
2:
    ldr x22, [x19, #{COUNT}]
    isb
    mrs x26, cntvct_el0
3:
    add x25, x25, #1
    str x25, [x24, #0x200]
    // Orders the request before the index that offers it.
    dmb ishst
    strh w25, [x24, #0x82]
    // Orders the store of the index before the load of the flags that say whether the device wants a
    // notification.
    dmb ish
    ldrh w9, [x24, #0x100]
    tbnz w9, #0, 4f
    str wzr, [x23, #0x50]
4:
    await_answer
    // Orders the used index before the answer.
    dmb ishld
    ldr x9, [x24, #0x280]
    mvn x9, x9
    cmp x9, x25
    b.ne 9f
    subs x22, x22, #1
    b.ne 3b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x26
    str x9, [x19, #{TICKS}]
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 2b
9:
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 9b
    handler
.purgem begin
.purgem await_answer
.purgem handler
