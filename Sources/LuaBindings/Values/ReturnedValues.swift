import CLua

/// What a body has returned, encoded. Where a parcel would own nothing there is none, so that most results need no memory of their own.
enum ReturnedValues {
    case few(Few)
    case parcel(Parcel)

    /// A parcel of up to 16 bytes that owns nothing.
    struct Few {
        let bytes: (UInt64, UInt64)
        let byteCount: UInt8
        let valueCount: UInt8
    }

    /// Takes over what `parcel` owns.
    init(taking parcel: inout clua_parcel) {
        if unsafe clua_parcel_is_few(&parcel) && parcel.byte_count <= 16 {
            self = unsafe .few(
                Few(bytes: (parcel.few.0, parcel.few.1), byteCount: UInt8(parcel.byte_count), valueCount: UInt8(parcel.value_count)))
        } else {
            self = unsafe .parcel(Parcel(parcel))
        }
    }

    /// To be read: made for each who asks.
    var parcel: Parcel {
        switch self {
        case .few(let few):
            var contents = unsafe clua_parcel()
            unsafe contents.few = (few.bytes.0, few.bytes.1, 0)
            unsafe (contents.byte_count, contents.value_count) = (Int(few.byteCount), UInt32(few.valueCount))
            return unsafe Parcel(contents)
        case .parcel(let parcel): return parcel
        }
    }
}
