import CLua

/// The encoded results of a body. Results that own nothing are stored inline without a parcel, so that most results need no allocation.
enum ReturnedValues {
    case few(Few)
    case parcel(Parcel)

    /// The bytes of a parcel that owns nothing, up to 16.
    struct Few {
        let bytes: (UInt64, UInt64)
        let byteCount: UInt8
        let valueCount: UInt8
    }

    /// Takes over the memory and the references that `parcel` owns.
    init(taking parcel: inout clua_parcel) {
        if unsafe clua_parcel_is_few(&parcel) && parcel.byte_count <= 16 {
            self = unsafe .few(
                Few(bytes: (parcel.few.0, parcel.few.1), byteCount: UInt8(parcel.byte_count), valueCount: UInt8(parcel.value_count)))
        } else {
            self = unsafe .parcel(Parcel(parcel))
        }
    }

    /// A parcel for reading the results. `few` makes a new one for each caller.
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
