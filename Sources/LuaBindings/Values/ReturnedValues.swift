import CLua

/// What a body has returned, encoded. Where a parcel would own nothing there is none, so that most results need no memory of their own.
@safe
enum ReturnedValues {
    case few(clua_few_values)
    case parcel(Parcel)

    /// Takes over what `parcel` owns.
    init(taking parcel: inout clua_parcel) {
        var few = clua_few_values()
        self = unsafe clua_are_few(&parcel, &few) ? .few(few) : .parcel(Parcel(parcel))
    }

    /// To be read: made for each who asks.
    var parcel: Parcel {
        switch self {
        case .few(let few): unsafe Parcel(clua_parcel_of_few(few))
        case .parcel(let parcel): parcel
        }
    }
}
