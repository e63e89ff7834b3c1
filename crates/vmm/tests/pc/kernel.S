# A small kernel: long mode, an interrupt table, the local APIC in both of its modes, its timer, and registers that
# leave the guest. Stores at 0x600 and above what it found.
    .set    COUNT, 0x600            # interrupts taken
    .set    X2APIC, 0x608           # how to end an interrupt
    .set    PRIORITY, 0x610
    .set    ADJUST, 0x618
    .set    BASE, 0x620
    .set    IDENTITY, 0x628

    .code32
    mov     esp, 0x1f0000
    # Page tables at 3 MiB: 4 GiB at their own addresses, in pages of 2 MiB.
    mov     edi, 0x300000
    xor     eax, eax
    mov     ecx, 0x2000
    rep stosd
    mov     dword ptr [0x300000], 0x301003
    mov     edi, 0x301000
    mov     eax, 0x302003
    mov     ecx, 4
2:  mov     [edi], eax
    add     eax, 0x1000
    add     edi, 8
    loop    2b
    mov     edi, 0x302000
    mov     eax, 0x83
    mov     ecx, 2048
2:  mov     [edi], eax
    add     eax, 0x200000
    add     edi, 8
    loop    2b
    # Segments: 64-bit code, data.
    mov     dword ptr [0x307008], 0x0000ffff
    mov     dword ptr [0x30700c], 0x00af9b00
    mov     dword ptr [0x307010], 0x0000ffff
    mov     dword ptr [0x307014], 0x00cf9300
    mov     word ptr [0x307020], 23
    mov     dword ptr [0x307022], 0x307000
    lgdt    [0x307020]
    mov     eax, cr4
    or      eax, 0x20
    mov     cr4, eax
    mov     eax, 0x300000
    mov     cr3, eax
    mov     ecx, 0xc0000080
    rdmsr
    or      eax, 0x100
    wrmsr
    call    2f
2:  pop     eax
    # add eax, the distance: Intel syntax would take a difference of labels for an address.
    .byte   0x05
    .long   3f - 2b
    push    8
    push    eax
    mov     eax, cr0
    or      eax, 0x80000001
    mov     cr0, eax
    retf

    .code64
3:  mov     eax, 16
    mov     ds, eax
    mov     es, eax
    mov     ss, eax
    # One gate, for the vector that everything here uses.
    lea     rax, [rip + 9f]
    mov     edi, 0x306b00
    mov     [rdi], ax
    mov     word ptr [rdi + 4], 0x8e00
    shr     rax, 16
    mov     [rdi + 6], ax
    mov     word ptr [rdi + 2], 8
    mov     edi, 0x307030
    mov     word ptr [rdi], 0xfff
    mov     qword ptr [rdi + 2], 0x306000
    lidt    [rdi]

    # No interrupts from the PICs.
    mov     al, 0xff
    out     0x21, al
    out     0xa1, al
    # An interrupt to itself, by the page of the local APIC.
    mov     ebx, 0xfee00000
    mov     eax, [rbx + 0x20]
    mov     [IDENTITY], eax
    mov     dword ptr [rbx + 0xf0], 0x1ff
    sti
    mov     dword ptr [rbx + 0x300], 0x400b0
2:  pause
    cmp     dword ptr [COUNT], 1
    jne     2b
    # An interrupt by its timer, at a value of the time stamp counter, while it halts.
    mov     dword ptr [rbx + 0x320], 0x400b0
    mfence
    cli
    mov     ecx, 0x6e0
    rdtsc
    add     eax, 100000
    adc     edx, 0
    wrmsr
    sti
5:  hlt
    # An interrupt by the registers of x2APIC.
    cli
    mov     ecx, 0x1b
    rdmsr
    or      eax, 0xc00
    wrmsr
    rdmsr
    mov     [BASE], eax
    mov     dword ptr [X2APIC], 1
    sti
    mov     ecx, 0x83f
    mov     eax, 0xb0
    xor     edx, edx
    wrmsr
2:  pause
    cmp     dword ptr [COUNT], 3
    jne     2b

    # Registers that leave the guest, or may.
    mov     eax, 5
    mov     cr8, rax
    mov     rax, cr8
    mov     [PRIORITY], rax
    mov     ecx, 0x3b
    xor     eax, eax
    xor     edx, edx
    wrmsr
    rdmsr
    mov     [ADJUST], eax
    wbinvd
    mov     eax, 0x400
    mov     dr7, rax
    xor     eax, eax
    mov     edx, {DONE_PORT}
    out     dx, eax
2:  hlt
    jmp     2b

9:  push    rax
    push    rcx
    push    rdx
    inc     dword ptr [COUNT]
    # QEMU's emulated SVM can lose the shadow of sti (docs/emulator-bugs.md): the handler of an interrupt that comes
    # before the one-byte hlt returns to the instruction after it.
    lea     rax, [rip + 5b]
    cmp     [rsp + 24], rax
    jne     6f
    inc     qword ptr [rsp + 24]
6:  cmp     dword ptr [X2APIC], 0
    jne     2f
    mov     eax, 0xfee000b0
    mov     dword ptr [rax], 0
    jmp     4f
2:  mov     ecx, 0x80b
    xor     eax, eax
    xor     edx, edx
    wrmsr
4:  pop     rdx
    pop     rcx
    pop     rax
    iretq
