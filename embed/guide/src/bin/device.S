    # Writes the registers: offset and value (virtio 1.3, 4.2.2).
    mov ebp, 0xd0000000
    lea rsi, [rip + 4f]
    mov ecx, 11                         # pairs in the table at 4
3:
    lodsd
    mov edi, eax
    lodsd
    mov [rbp + rdi], eax
    loop 3b

    # Makes a request of two buffers available (virtio 1.3, 2.7).
    mov edi, 0x200000
    lea rax, [rip + 5f]
    mov [rdi], rax                      # descriptor 0: the request
    mov dword ptr [rdi + 8], 13         # its length
    mov dword ptr [rdi + 12], 0x10001   # VIRTQ_DESC_F_NEXT: descriptor 1
    mov qword ptr [rdi + 16], 0x201000  # descriptor 1: room for the answer
    mov dword ptr [rdi + 24], 64
    mov dword ptr [rdi + 28], 2         # VIRTQ_DESC_F_WRITE
    mov dword ptr [rdi + 0x80], 0x10000 # available: one chain, which begins at descriptor 0
    mov dword ptr [rbp + 0x50], 0       # QueueNotify, the doorbell
    sti
    hlt                                 # until the device interrupts
    mov dword ptr [rbp + 0x64], 1       # InterruptACK
    mov eax, [rdi + 0x108]              # used: the bytes that the device wrote
    out {DONE_PORT}, eax

4:
    .long 0x70, 3                       # Status: ACKNOWLEDGE, DRIVER
    .long 0x24, 1, 0x20, 1              # DriverFeatures: VIRTIO_F_VERSION_1
    .long 0x70, 11                      # Status: and FEATURES_OK
    .long 0x30, 0, 0x38, 8              # queue 0, of 8 descriptors
    .long 0x80, 0x200000                # QueueDesc
    .long 0x90, 0x200080                # QueueDriver: the available ring
    .long 0xa0, 0x200100                # QueueDevice: the used ring
    .long 0x44, 1                       # QueueReady
    .long 0x70, 15                      # Status: and DRIVER_OK
5:
    .ascii "ring the bell"
