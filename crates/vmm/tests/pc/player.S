# Plays a list of 16-byte records at 2 MiB: operation, address, value, and what was read.
    .code32
    mov     esp, 0x1f0000
    mov     esi, 0x200000
5:  mov     ecx, [esi]
    mov     edx, [esi + 4]
    mov     eax, [esi + 8]
    call    2f
    mov     [esi + 12], eax
    add     esi, 16
    jmp     5b

2:  cmp     ecx, 0x01
    jne     3f
    out     dx, al
    ret
3:  cmp     ecx, 0x02
    jne     3f
    out     dx, ax
    ret
3:  cmp     ecx, 0x04
    jne     3f
    out     dx, eax
    ret
3:  cmp     ecx, 0x11
    jne     3f
    xor     eax, eax
    in      al, dx
    ret
3:  cmp     ecx, 0x12
    jne     3f
    xor     eax, eax
    in      ax, dx
    ret
3:  cmp     ecx, 0x14
    jne     3f
    in      eax, dx
    ret
3:  cmp     ecx, 0x21
    jne     3f
    mov     [edx], al
    ret
3:  cmp     ecx, 0x22
    jne     3f
    mov     [edx], ax
    ret
3:  cmp     ecx, 0x24
    jne     3f
    mov     [edx], eax
    ret
3:  cmp     ecx, 0x31
    jne     3f
    movzx   eax, byte ptr [edx]
    ret
3:  cmp     ecx, 0x32
    jne     3f
    movzx   eax, word ptr [edx]
    ret
3:  cmp     ecx, 0x34
    jne     3f
    mov     eax, [edx]
    ret
    # Wait until memory has a value.
3:  cmp     ecx, 0x40
    jne     3f
4:  pause
    cmp     [edx], eax
    jne     4b
    ret
    # What the loader left in EBX.
3:  cmp     ecx, 0x50
    jne     3f
    mov     eax, ebx
    ret
    # Wait until bits of a port are set, and until they are clear.
3:  cmp     ecx, 0x71
    jne     3f
    mov     ebp, eax
4:  in      al, dx
    test    ebp, eax
    jz      4b
    ret
3:  cmp     ecx, 0x70
    jne     3f
    mov     ebp, eax
4:  in      al, dx
    test    ebp, eax
    jnz     4b
    ret
    # ECX of a leaf of CPUID.
3:  cmp     ecx, 0x80
    jne     3f
    push    ebx
    mov     eax, edx
    xor     ecx, ecx
    cpuid
    mov     eax, ecx
    pop     ebx
    ret
    # The low half of a model-specific register.
3:  cmp     ecx, 0x90
    jne     3f
    mov     ecx, edx
    rdmsr
    ret
    # Sleep forever, without anything that could wake the CPU.
3:  cmp     ecx, 0x60
    jne     3f
4:  hlt
    jmp     4b
    # Anything else is an invalid instruction, for which there is no handler.
3:  ud2
    .code64
