# Drives an Intel 82574L (e1000e) found on the PCI bus: echoes 64 frames, with the two addresses of each exchanged, by
# MSI-X: vector 0x51 for reception, 0x52 for transmission. Register names are those of its data sheet. At 0x600 and
# above: interrupts of reception and of transmission, frames, and the card's vendor and device.
    .set    RX_INTERRUPTS, 0x600
    .set    TX_INTERRUPTS, 0x604
    .set    FRAMES, 0x608
    .set    IDENTITY, 0x60c
    .set    WANTED, 64
    .set    RX_RING, 0x200000
    .set    TX_RING, 0x200100
    .set    BUFFERS, 0x201000
    .set    SLOTS, 16

    .code32
    mov     esp, 0x1f0000
    # Segments: none, code, data.
    mov     dword ptr [0x307008], 0x0000ffff
    mov     dword ptr [0x30700c], 0x00cf9b00
    mov     dword ptr [0x307010], 0x0000ffff
    mov     dword ptr [0x307014], 0x00cf9300
    mov     word ptr [0x307020], 23
    mov     dword ptr [0x307022], 0x307000
    lgdt    [0x307020]
    push    8
    call    2f
2:  pop     eax
    # add eax, the distance: Intel syntax would take a difference of labels for an address.
    .byte   0x05
    .long   3f - 2b
    push    eax
    retf
3:  mov     eax, 16
    mov     ds, eax
    mov     es, eax
    mov     ss, eax
    # Gates of the two vectors.
    call    2f
2:  pop     ebp
    mov     eax, ebp
    .byte   0x05
    .long   70f - 2b
    mov     edi, 0x306000 + 0x51 * 8
    call    60f
    mov     eax, ebp
    .byte   0x05
    .long   71f - 2b
    call    60f
    mov     word ptr [0x307030], 0x7ff
    mov     dword ptr [0x307032], 0x306000
    lidt    [0x307030]
    mov     al, 0xff
    out     0x21, al
    out     0xa1, al
    # The local APIC as x2APIC, enabled.
    mov     ecx, 0x1b
    rdmsr
    or      eax, 0xc00
    wrmsr
    mov     ecx, 0x80f
    mov     eax, 0x1ff
    xor     edx, edx
    wrmsr

    # Find the card; ebx is its address in configuration space.
    mov     ebx, 0x80000000
2:  mov     eax, ebx
    call    61f
    cmp     eax, 0x10d38086
    je      3f
    add     ebx, 0x800
    cmp     ebx, 0x80010000
    jb      2b
    mov     eax, 1
    jmp     90f
3:  mov     [IDENTITY], eax
    # Memory and bus mastering on; INTx off.
    lea     eax, [ebx + 4]
    mov     edx, 0xcf8
    out     dx, eax
    mov     edx, 0xcfc
    mov     eax, 0x406
    out     dx, ax
    # esi: its registers (BAR0).
    lea     eax, [ebx + 0x10]
    call    61f
    and     eax, 0xfffffff0
    mov     esi, eax
    # edi: the offset of the MSI-X capability.
    lea     eax, [ebx + 0x34]
    call    61f
    movzx   edi, al
2:  lea     eax, [ebx + edi]
    call    61f
    cmp     al, 0x11
    je      3f
    movzx   edi, ah
    test    edi, edi
    jnz     2b
    mov     eax, 2
    jmp     90f
    # The MSI-X table: its BAR and its offset there; ecx is its address.
3:  lea     eax, [ebx + edi + 4]
    call    61f
    mov     ecx, eax
    and     ecx, 7
    and     eax, 0xfffffff8
    push    eax
    lea     eax, [ebx + ecx * 4 + 0x10]
    call    61f
    and     eax, 0xfffffff0
    pop     ecx
    add     ecx, eax
    # Entries 0 and 1: messages to the first CPU, not masked.
    mov     dword ptr [ecx], 0xfee00000
    mov     dword ptr [ecx + 4], 0
    mov     dword ptr [ecx + 8], 0x51
    mov     dword ptr [ecx + 12], 0
    mov     dword ptr [ecx + 16], 0xfee00000
    mov     dword ptr [ecx + 20], 0
    mov     dword ptr [ecx + 24], 0x52
    mov     dword ptr [ecx + 28], 0
    lea     eax, [ebx + edi]
    mov     edx, 0xcf8
    out     dx, eax
    mov     edx, 0xcfe
    mov     eax, 0x8000
    out     dx, ax

    # CTRL.RST, and no interrupt until all is set up (IMC).
    mov     dword ptr [esi + 0xd8], 0xffffffff
    or      dword ptr [esi], 0x04000000
2:  pause
    test    dword ptr [esi], 0x04000000
    jnz     2b
    mov     dword ptr [esi + 0xd8], 0xffffffff
    # CTRL.SLU; CTRL_EXT: interrupts of MSI-X.
    or      dword ptr [esi], 0x40
    or      dword ptr [esi + 0x18], 0x80000000
    # IVAR: reception by entry 0, transmission by entry 1. EIAC: both causes clear themselves.
    mov     dword ptr [esi + 0xe4], 0x80000908
    mov     dword ptr [esi + 0xdc], 0x00500000
    # No multicast addresses.
    xor     ecx, ecx
2:  mov     dword ptr [esi + 0x5200 + ecx * 4], 0
    inc     ecx
    cmp     ecx, 128
    jb      2b
    # Descriptors of reception: a buffer each.
    mov     edi, RX_RING
    mov     eax, BUFFERS
    mov     ecx, SLOTS
2:  mov     [edi], eax
    mov     dword ptr [edi + 4], 0
    mov     dword ptr [edi + 8], 0
    mov     dword ptr [edi + 12], 0
    add     eax, 2048
    add     edi, 16
    loop    2b
    # RDBAL, RDBAH, RDLEN, RDH, RDT and the same of transmission.
    mov     dword ptr [esi + 0x2800], RX_RING
    mov     dword ptr [esi + 0x2804], 0
    mov     dword ptr [esi + 0x2808], SLOTS * 16
    mov     dword ptr [esi + 0x2810], 0
    mov     dword ptr [esi + 0x3800], TX_RING
    mov     dword ptr [esi + 0x3804], 0
    mov     dword ptr [esi + 0x3808], SLOTS * 16
    mov     dword ptr [esi + 0x3810], 0
    mov     dword ptr [esi + 0x3818], 0
    # IMS: reception and transmission of queue 0. TCTL.EN and PSP. RCTL.EN, every address, no checksum.
    mov     dword ptr [esi + 0xd0], 0x00500000
    mov     dword ptr [esi + 0x400], 0x0000000a
    mov     dword ptr [esi + 0x100], 0x0400801a
    mov     dword ptr [esi + 0x2818], SLOTS - 1

    # edi: the next descriptor of reception and of transmission.
    xor     edi, edi
    sti
40: mov     ebp, edi
    shl     ebp, 4
    test    byte ptr [RX_RING + ebp + 12], 1
    jnz     42f
41: hlt
    jmp     40b
    # A frame: exchange its addresses and send it from where it is.
42: mov     ecx, [RX_RING + ebp]
    mov     eax, [ecx]
    mov     dx, [ecx + 4]
    push    eax
    mov     eax, [ecx + 6]
    mov     [ecx], eax
    mov     ax, [ecx + 10]
    mov     [ecx + 4], ax
    pop     eax
    mov     [ecx + 6], eax
    mov     [ecx + 10], dx
    mov     [TX_RING + ebp], ecx
    mov     dword ptr [TX_RING + ebp + 4], 0
    movzx   eax, word ptr [RX_RING + ebp + 8]
    # It is the frame's last descriptor; the card adds the checksum and reports completion.
    or      eax, 0x0b000000
    mov     dword ptr [TX_RING + ebp + 12], 0
    mov     [TX_RING + ebp + 8], eax
    lea     eax, [edi + 1]
    and     eax, SLOTS - 1
    mov     [esi + 0x3818], eax
2:  pause
    test    byte ptr [TX_RING + ebp + 12], 1
    jz      2b
    # The buffer is free again.
    mov     dword ptr [RX_RING + ebp + 8], 0
    mov     dword ptr [RX_RING + ebp + 12], 0
    mov     [esi + 0x2818], edi
    mov     edi, eax
    inc     dword ptr [FRAMES]
    cmp     dword ptr [FRAMES], WANTED
    jb      40b
    # Wait for the interrupt of the last report.
2:  cmp     dword ptr [TX_INTERRUPTS], 0
    jne     3f
    pause
    jmp     2b
3:  xor     eax, eax
90: mov     edx, {DONE_PORT}
    out     dx, eax
2:  hlt
    jmp     2b

    # Make a gate at edi for the handler at eax; then edi is the next vector's gate.
60: mov     [edi], ax
    mov     word ptr [edi + 2], 8
    mov     word ptr [edi + 4], 0x8e00
    shr     eax, 16
    mov     [edi + 6], ax
    add     edi, 8
    ret
    # The dword of configuration space at eax.
61: mov     edx, 0xcf8
    out     dx, eax
    mov     edx, 0xcfc
    in      eax, dx
    ret

    # A handler returns to the instruction after the halt: what the program read before may be stale.
70: inc     dword ptr [RX_INTERRUPTS]
    jmp     72f
71: inc     dword ptr [TX_INTERRUPTS]
72: push    eax
    push    ecx
    push    edx
    # IMS: a cause that clears itself is also masked.
    mov     dword ptr [esi + 0xd0], 0x00500000
    call    2f
2:  pop     eax
    mov     ecx, eax
    .byte   0x05
    .long   41b - 2b
    # ecx: where the program begins to look.
    .byte   0x81, 0xc1
    .long   40b - 2b
    cmp     [esp + 12], ecx
    jb      3f
    cmp     [esp + 12], eax
    ja      3f
    inc     eax
    mov     [esp + 12], eax
3:  mov     ecx, 0x80b
    xor     eax, eax
    xor     edx, edx
    wrmsr
    pop     edx
    pop     ecx
    pop     eax
    iretd
    .code64
